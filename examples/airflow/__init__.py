"""Sales of an hour land by many producers; one completion starts a DAG of Airflow."""
