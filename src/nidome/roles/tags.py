"""Tags that kubespray's playbooks have, by name: asking for one is no mistake, even where nothing here has it."""

from __future__ import annotations

__all__ = ["KUBESPRAY_TAGS"]

KUBESPRAY_TAGS = frozenset(
    """
    annotate apps argocd asserts aws-ebs-csi-driver azure-csi-driver bastion bootstrap-os bootstrap_os
    calico calico_rr canal cert-manager cilium cilium_deploy_additionally cinder-csi-driver client
    cloud-provider cluster-roles cni container-engine container-runtimes container_engine_accelerator
    containerd control-plane coredns crio crun csi-driver custom_cni dashboard deploy_container_engine
    deploy_coredns dns docker download download_force_cache etcd etcd-secrets etcd_cluster_setup
    etcd_metrics etcdctl etcdutl etchosts external-cloud-controller external-hcloud external-huaweicloud
    external-oci external-openstack external-provisioner external-vsphere facts files filter flannel
    gateway_api gce gcp-pd-csi-driver gvisor haproxy helm ingress-controller ingress_alb init ip6tables
    iptables k8s-pre-upgrade kata-containers kube-apiserver kube-controller-manager kube-ovn kube-proxy
    kube-router kube-vip kubeadm kubeadm_token kubectl kubelet kubelet-csr-approver
    loadbalancer_apiserver_localhost local-path-provisioner local-volume-provisioner localhost macvlan
    master metallb metrics_server mounts multus netchecker network nginx node node-label node-taint
    node-webhook node_feature_discovery nodelocaldns nvidia_gpu oci persistent_volumes
    persistent_volumes_aws_ebs_csi persistent_volumes_azure_csi persistent_volumes_cinder_csi
    persistent_volumes_gcp_pd_csi persistent_volumes_openstack persistent_volumes_upcloud_csi policy-
    controller post-remove post-upgrade pre-remove pre-upgrade preinstall prometheus_operator_crds
    registry remove reset reset_containerd reset_crio resolvconf scheduler_plugins services snapshot
    snapshot-controller snapshots system-packages system-upgrade system-upgrade-apt system-upgrade-yum
    system_upgrade upcloud-csi-driver upgrade upload validate-container-engine vsphere-csi-driver weave
    win_nodes youki
    """.split()
)
"""The tags of tasks and of its documentation, release 2.32.0; and a few that earlier releases had."""
