"""The client for programs of tasks in one asyncio event loop."""
