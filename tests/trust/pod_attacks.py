"""Pod sections by which a job would reach beyond its container, by name. Each must be refused by Grus itself.

Used against the allow-list, over HTTP, as GpuJobs of kubectl, and in the intrusion table.
"""

from typing import Any

Pod = dict[str, Any]


def _spec(**fields: Any) -> Pod:
    return {"spec": fields}


def _main(**fields: Any) -> Pod:
    return _spec(containers=[fields])


def _confined(**fields: Any) -> Pod:
    return _main(securityContext=fields)


def _volume(**source: Any) -> Pod:
    return {
        "spec": {
            "volumes": [{"name": "loot", **source}],
            "containers": [{"volumeMounts": [{"name": "loot", "mountPath": "/loot"}]}],
        }
    }


def _noted(**annotations: str) -> Pod:
    return {"metadata": {"annotations": annotations}}


TOKEN = {"serviceAccountToken": {"path": "token"}}
WHOLE = {
    "spec": {
        "serviceAccountName": "grus-controller",
        "automountServiceAccountToken": True,
        "containers": [
            {
                "securityContext": {"privileged": True},
                "volumeMounts": [{"name": "host", "mountPath": "/host"}],
            }
        ],
        "volumes": [{"name": "host", "hostPath": {"path": "/"}}],
    }
}
"""Root of the node with the controller's own rights."""
POD_ATTACKS: dict[str, Pod] = {
    "root of the node with the controller's account": WHOLE,
    "the controller's account": _spec(serviceAccountName="grus-controller"),
    "the controller's account by its old name": _spec(serviceAccount="grus-controller"),
    "a mounted token": _spec(automountServiceAccountToken=True),
    "a projected token": _volume(projected={"sources": [TOKEN]}),
    "a projected Secret": _volume(projected={"sources": [{"secret": {"name": "admin"}}]}),
    "a Secret as a volume": _volume(secret={"secretName": "admin"}),
    "a Secret as a variable": _main(
        env=[{"name": "A", "valueFrom": {"secretKeyRef": {"name": "admin", "key": "token"}}}]
    ),
    "a Secret as all variables": _main(envFrom=[{"secretRef": {"name": "admin"}}]),
    "variables that choose GPUs": _main(envFrom=[{"configMapRef": {"name": "all-gpus"}}]),
    "a Secret for images": _spec(imagePullSecrets=[{"name": "admin"}]),
    "the node's files": _volume(hostPath={"path": "/"}),
    "the container runtime's socket": _volume(hostPath={"path": "/run/containerd/containerd.sock"}),
    "another's claim": _volume(persistentVolumeClaim={"claimName": "payroll"}),
    "an ephemeral claim": _volume(ephemeral={"volumeClaimTemplate": {"spec": {}}}),
    "an NFS server": _volume(nfs={"server": "10.0.0.1", "path": "/"}),
    "an inline CSI driver": _volume(csi={"driver": "secrets-store.csi.k8s.io"}),
    "an iSCSI target": _volume(iscsi={"targetPortal": "10.0.0.1", "iqn": "iqn.a", "lun": 0}),
    "a raw disk": _volume(gcePersistentDisk={"pdName": "etcd"}),
    "a git repository cloned by the node": _volume(gitRepo={"repository": "ext::sh -c id"}),
    "an image as a volume": _volume(image={"reference": "team/private:1"}),
    "a privileged container": _confined(privileged=True),
    "a capability": _confined(capabilities={"add": ["SYS_ADMIN"]}),
    "all capabilities": _confined(capabilities={"add": ["ALL"]}),
    "privilege escalation": _confined(allowPrivilegeEscalation=True),
    "root in the container": _confined(runAsUser=0),
    "root in the pod": _spec(securityContext={"runAsUser": 0}),
    "leave to be root": _confined(runAsNonRoot=False),
    "root's group": _spec(securityContext={"supplementalGroups": [0]}),
    "an unmasked /proc": _confined(procMount="Unmasked"),
    "no seccomp": _confined(seccompProfile={"type": "Unconfined"}),
    "a seccomp profile of the node": _confined(
        seccompProfile={"type": "Localhost", "localhostProfile": "x.json"}
    ),
    "no AppArmor": _confined(appArmorProfile={"type": "Unconfined"}),
    "an SELinux type": _confined(seLinuxOptions={"type": "spc_t"}),
    "the host's process on Windows": _confined(windowsOptions={"hostProcess": True}),
    "no seccomp by annotation": _noted(**{"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}),
    "no AppArmor by annotation": _noted(
        **{"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}
    ),
    "devices by annotation": _noted(**{"io.kubernetes.cri-o.Devices": "/dev/sda"}),
    "another hypervisor by annotation": _noted(**{"io.katacontainers.config.hypervisor.path": "/bin/sh"}),
    "rules of systemd by annotation": _noted(**{"org.systemd.property.DevicePolicy": "'auto'"}),
    "a CDI device by annotation": _noted(**{"cdi.k8s.io/gpus": "nvidia.com/gpu=all"}),
    "another network by annotation": _noted(**{"k8s.v1.cni.cncf.io/networks": "kube-system/storage"}),
    "an identity by label": {"metadata": {"labels": {"azure.workload.identity/use": "true"}}},
    "the node's network": _spec(hostNetwork=True),
    "the node's network in other letters": _spec(HostNetwork=True),
    "the node's processes": _spec(hostPID=True),
    "the node's memory": _spec(hostIPC=True),
    "a port of the node": _main(ports=[{"containerPort": 80, "hostPort": 80}]),
    "kernel settings": _spec(securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}),
    "another node": _spec(nodeName="control-plane"),
    "another scheduler": _spec(schedulerName="default-scheduler"),
    "tolerance of every taint": _spec(tolerations=[{"operator": "Exists"}]),
    "a system priority": _spec(priorityClassName="system-node-critical"),
    "a priority by number": _spec(priority=2_000_001_000),
    "another runtime": _spec(runtimeClassName="none"),
    "a second container": _spec(containers=[{}, {"name": "b", "image": "b"}]),
    "an init container": _spec(initContainers=[{"name": "a", "image": "a"}]),
    "an ephemeral container": _spec(ephemeralContainers=[{"name": "a", "image": "a"}]),
    "another's process namespace": _spec(shareProcessNamespace=False),
    "GPUs that are not counted": _main(resources={"limits": {"nvidia.com/mig-1g.5gb": 1}}),
    "a device of the node": _main(resources={"limits": {"devices.kubevirt.io/kvm": 1}}),
    "a resource claim": _spec(resourceClaims=[{"name": "a", "resourceClaimName": "b"}]),
    "a probe of the node's loopback": _main(livenessProbe={"httpGet": {"host": "127.0.0.1", "port": 10255}}),
    "a hook to the metadata server": _main(
        lifecycle={"postStart": {"httpGet": {"host": "169.254.169.254", "port": 80}}}
    ),
    "a path out of a volume": _main(
        volumeMounts=[{"name": "grus", "mountPath": "/a", "subPath": "../../.."}]
    ),
    "mounts that spread to the node": _main(
        volumeMounts=[{"name": "grus", "mountPath": "/a", "mountPropagation": "Bidirectional"}]
    ),
    "a raw device": _main(volumeDevices=[{"name": "grus", "devicePath": "/dev/xvda"}]),
    "another field of the pod": _main(
        env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostNetwork"}}}]
    ),
    "another owner": {"metadata": {"ownerReferences": []}},
    "Grus's own label": {"metadata": {"labels": {"grus.dev/leader": "true"}}},
    "an unknown field": _spec(futureHostAccess=True),
}
