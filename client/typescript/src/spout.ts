/** A spout: emits roots under the name of one spout task, and reads their completions. */
import { type Completion, dispatch, type MessageHandler } from "./completions.js";
import { use } from "./propagate.js";
import { type EmitOptions, Root } from "./root.js";
import { MailboxReader, type ReadOptions, type SpoutTask } from "./spout-task.js";
import type { Submitter } from "./submitter.js";

export class Spout {
  /** Programs get spouts of `Acker.spout` and `Acker.sharedSpout`. */
  constructor(
    private readonly task: SpoutTask,
    private readonly submitter: Submitter,
  ) {}

  /** The spout task's name. */
  get name(): string {
    return this.task.name;
  }

  /**
   * Emit a root: make one child for each consumer in `run`; its init is sent when `run` has ended.
   *
   * ```ts
   * await spout.emit("42", (root) => queue.send(body, { headers: root.headers("greet") }));
   * ```
   *
   * `messageId` is the spout's own id of the message; null: nothing is tracked. The root is current while `run` runs. It
   * waits for a free place before that, and throws a `ServiceError` for an init that stays refused
   * (`max_spout_pending`, `mailbox_full`, `store_full`). If `run` throws, no init is sent. Returns what `run` returns.
   */
  async emit<T = undefined>(
    messageId: string | null,
    run?: (root: Root) => T | Promise<T>,
    options: EmitOptions = {},
  ): Promise<T | undefined> {
    this.submitter.flusher.raiseFailures();
    const root = new Root(this.task.session.topology, this.task.name, messageId, options);
    if (root.tracked) {
      await this.task.admit(options.signal);
    }
    try {
      const result = await use(root, async () => await run?.(root));
      root.close();
      if (root.tracked) {
        const init = root.initOperation((rootId) => this.submitter.isTraced(rootId));
        await this.submitter.sendNow([init], options);
      }
      return result;
    } finally {
      root.close();
      if (root.tracked) {
        this.task.release();
      }
    }
  }

  /**
   * Read completions; one is released only after the loop's body for it ended without an exception.
   *
   * ```ts
   * for await (const completion of spout.completions()) {
   *   await source.delete(completion.messageId);
   * }
   * ```
   *
   * After a `break` or an exception all completions of the page come again, which is logged.
   */
  async *completions(options: ReadOptions = {}): AsyncGenerator<Completion, void, void> {
    const reader = new MailboxReader(this.task, options);
    while (reader.isOpen) {
      const page = await reader.read();
      let isHandled = false;
      try {
        yield* page;
        isHandled = true;
      } finally {
        if (!isHandled) {
          this.#warnUnreleased(page.length);
        }
      }
      await reader.release();
    }
  }

  /** Call `onAck` or `onFail` with the message id of each completion; it is released after its handler has ended. */
  async listen(
    options: ReadOptions & { readonly onAck?: MessageHandler; readonly onFail?: MessageHandler },
  ): Promise<void> {
    for await (const completion of this.completions(options)) {
      await dispatch(completion, options);
    }
  }

  #warnUnreleased(size: number): void {
    const words = `the loop over the completions of ${this.name} was left within a page: its ${size} completions are not`;
    this.task.session.settings.logger.warn(`acker: ${words} released and come again; end the loop with stop`);
  }
}
