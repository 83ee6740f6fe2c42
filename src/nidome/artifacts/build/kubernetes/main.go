// Kubernetes as one binary: the name it is called by chooses the component.
//
// Six programs that share nearly all of their code make one file of the size of the largest; a host
// gets it once, with a hard link per name. `kubernetes NAME ARGS...` works too.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	_ "time/tzdata" // CronJob time zones, on hosts without a time zone database

	"github.com/spf13/cobra"
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// The server components; kubectl reports its errors in another way and is not in the table.
var components = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-proxy":              proxy.NewProxyCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if !known(name) && len(os.Args) > 1 {
		name = os.Args[1]
		os.Args = os.Args[1:]
	}
	if name == "kubectl" {
		runKubectl()
		return
	}
	if component, found := components[name]; found {
		os.Exit(cli.Run(component()))
	}
	fmt.Fprintf(os.Stderr, "no component '%s'; there are: kubectl, %s\n", name, strings.Join(names(), ", "))
	os.Exit(2)
}

func runKubectl() {
	// The verbosity has to be set before the command exists: making it already reads kuberc and plugins.
	_, _ = logs.GlogSetter(kubectl.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
	}
}

func known(name string) bool {
	_, found := components[name]
	return found || name == "kubectl"
}

func names() []string {
	all := make([]string, 0, len(components))
	for name := range components {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}
