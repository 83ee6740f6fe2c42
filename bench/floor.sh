#!/bin/bash
# The floor: starts the same binaries with the same arguments by hand, side by side, on a host where configuration,
# certificates and binaries lie ready. Prints the seconds until the node is Ready and until DNS answers.
# Arguments: node name, DNS service address, directory of what was taken from an installed host.
set -u
node=$1 dns=$2 given=$3
began=$(date +%s.%N)
since() { echo "$(date +%s.%N) $began" | awk '{printf "%.3f", $1 - $2}'; }
sysctl -qw net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1
mkdir -p /var/lib/kine /var/lib/kubelet /etc/kubernetes/manifests /run/containerd
export PATH=/usr/local/bin:$PATH
start() { bash -c "exec $(cat "$given/$1.command")" >/tmp/"$1".log 2>&1 & }
for component in kine containerd kube-apiserver kube-controller-manager kube-scheduler kube-proxy; do start $component; done
api() { curl -sf --cacert /etc/kubernetes/ssl/ca.crt --cert /etc/kubernetes/ssl/admin.crt --key /etc/kubernetes/ssl/admin.key "$@"; }
server=$(awk '/server:/ {gsub("\"", "", $2); print $2}' /etc/kubernetes/admin.conf)
(
  until ctr -a /run/containerd/containerd.sock version >/dev/null 2>&1; do sleep 0.05; done
  ctr -a /run/containerd/containerd.sock -n k8s.io images import "$given/pause.tar" >/dev/null
) &
until [ "$(api "$server/readyz")" = ok ]; do sleep 0.05; done
start kubelet
kubectl --kubeconfig /etc/kubernetes/admin.conf apply --server-side -f "$given/objects.json" >/tmp/objects.log 2>&1 &
ctr -a /run/containerd/containerd.sock -n k8s.io images import "$given/coredns.tar" >/dev/null &
until api "$server/api/v1/nodes/$node" | grep -A3 '"reason": "KubeletReady"' >/dev/null; do sleep 0.05; done
echo "ready $(since)"
python3 -I -S /root/dns_in_pod.py "$dns"
echo "dns $(since)"
