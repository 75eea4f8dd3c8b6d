// The servers of Kubernetes in one program, which looks at the name it is called by: one link instead of four, and
// the packages that they share are stored once. build.py compiles it inside Kubernetes' own source tree.
package main

import (
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/restclient"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func command(name string) *cobra.Command {
	switch name {
	case "kube-apiserver":
		return apiserver.NewAPIServerCommand()
	case "kube-controller-manager":
		return controllers.NewControllerManagerCommand()
	case "kube-scheduler":
		return scheduler.NewSchedulerCommand()
	case "kubelet":
		return kubelet.NewKubeletCommand()
	}
	return nil
}

func main() {
	name := filepath.Base(os.Args[0])
	chosen := command(name)
	if chosen == nil {
		fmt.Fprintf(os.Stderr, "%s: call me kube-apiserver, kube-controller-manager, kube-scheduler or kubelet\n", name)
		os.Exit(2)
	}
	rand.Seed(time.Now().UnixNano())
	logs.InitLogs()
	err := chosen.Execute()
	logs.FlushLogs()
	if err != nil {
		os.Exit(1)
	}
}
