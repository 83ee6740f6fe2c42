// CoreDNS with the plugins that a cluster's DNS uses and nothing of the clouds, which are most of its size.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/acl"
	_ "github.com/coredns/coredns/plugin/any"
	_ "github.com/coredns/coredns/plugin/autopath"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/bufsize"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/cancel"
	_ "github.com/coredns/coredns/plugin/debug"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/file"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/header"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/hosts"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/local"
	_ "github.com/coredns/coredns/plugin/log"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metadata"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/minimal"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
	_ "github.com/coredns/coredns/plugin/rewrite"
	_ "github.com/coredns/coredns/plugin/template"
	_ "github.com/coredns/coredns/plugin/whoami"
)

// The order is that of upstream's plugin.cfg: a query passes through the plugins from top to bottom.
// A directive that is not here is refused when a Corefile is read.
func init() {
	dnsserver.Directives = []string{
		"metadata",
		"cancel",
		"reload",
		"bufsize",
		"bind",
		"debug",
		"ready",
		"health",
		"prometheus",
		"errors",
		"log",
		"local",
		"any",
		"loadbalance",
		"rewrite",
		"autopath",
		"acl",
		"cache",
		"header",
		"minimal",
		"template",
		"hosts",
		"kubernetes",
		"file",
		"loop",
		"forward",
		"whoami",
	}
}

func main() {
	coremain.Run()
}
