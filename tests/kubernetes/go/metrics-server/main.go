// The metrics server, which a HorizontalPodAutoscaler asks.
package main

import (
	"os"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/logs"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app"
)

func main() {
	logs.InitLogs()
	defer logs.FlushLogs()
	if err := app.NewMetricsServerCommand(genericapiserver.SetupSignalHandler()).Execute(); err != nil {
		os.Exit(1)
	}
}
