"""A real Airflow that is told when a batch has landed."""
