// Whether the key of this tab may act, or only read.

import { get, readKey } from "./api.js";
import { useLoaded } from "./ui.js";

// True once the acker has said that the key is not of scope admin. The acker itself refuses what a key may not do.
export function useReadOnly() {
  const key = readKey();
  const { problem } = useLoaded(() => get("/v1/status"), key);
  return problem?.code === "forbidden";
}
