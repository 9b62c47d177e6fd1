"""The page `/ui/`: plain files, which `acker_service.http.ui` serves."""
