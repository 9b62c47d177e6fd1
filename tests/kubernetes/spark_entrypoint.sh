#!/bin/bash
# Starts a driver or an executor in the image of the Spark example, by the variables that Spark gives their pods.
set -e
role=$1
shift
case "$role" in
driver)
    exec "$SPARK_HOME/bin/spark-submit" --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" --deploy-mode client "$@"
    ;;
executor)
    readarray -t options < <(env | grep '^SPARK_JAVA_OPT_' | sort --field-separator=_ --key=4 --numeric-sort | cut --delimiter== --fields=2-)
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -classpath "$SPARK_HOME/conf:$SPARK_HOME/jars/*" org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --app-id "$SPARK_APPLICATION_ID" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    echo "neither driver nor executor: $role" >&2
    exit 1
    ;;
esac
