//! The example for Kubernetes is what the MPI Operator's v2beta1 takes: checked here without a cluster, against the parts of
//! its API that the example uses (github.com/kubeflow/mpi-operator, MPIJob) and what a measurement needs beyond them.

use serde_json::{Value, json};

/// An object with these properties and no other; the first so many are required.
fn object(required: usize, properties: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = properties.iter().take(required).map(|(name, _)| *name).collect();
    let properties: serde_json::Map<_, _> =
        properties.iter().map(|(name, v)| ((*name).to_owned(), v.clone())).collect();
    json!({ "type": "object", "required": names, "properties": properties, "additionalProperties": false })
}

fn schema() -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let quantities = json!({ "type": "object", "required": ["cpu", "memory"], "additionalProperties": { "pattern": "^[0-9]+(m|[KMGT]i)?$" } });
    let user = json!({ "type": "integer", "minimum": 1 });
    let mount = object(2, &[("name", text.clone()), ("mountPath", json!({ "pattern": "^/" }))]);
    let container = object(
        3,
        &[
            ("name", json!({ "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" })),
            ("image", text.clone()),
            ("resources", object(2, &[("requests", quantities.clone()), ("limits", quantities)])),
            ("command", json!({ "type": "array", "items": text })),
            ("args", json!({ "type": "array", "items": text })),
            ("volumeMounts", json!({ "type": "array", "items": mount })),
        ],
    );
    let pod = object(
        1,
        &[
            ("containers", json!({ "type": "array", "minItems": 1, "items": container })),
            ("securityContext", object(0, &[("runAsUser", user.clone()), ("fsGroup", user)])),
            (
                "volumes",
                json!({ "type": "array", "items": object(2, &[("name", text.clone()), ("emptyDir", json!({ "type": "object" }))]) }),
            ),
            (
                "affinity",
                object(
                    1,
                    &[(
                        "podAntiAffinity",
                        json!({ "type": "object", "required": ["requiredDuringSchedulingIgnoredDuringExecution"] }),
                    )],
                ),
            ),
        ],
    );
    let labels = json!({ "type": "object", "additionalProperties": text });
    let template = object(1, &[("spec", pod), ("metadata", object(1, &[("labels", labels)]))]);
    let replica = object(
        2,
        &[
            ("replicas", json!({ "type": "integer", "minimum": 1 })),
            ("template", template),
            ("restartPolicy", json!({ "enum": ["Never", "OnFailure", "Always"] })),
        ],
    );
    let policy = object(
        0,
        &[
            ("cleanPodPolicy", json!({ "enum": ["None", "Running", "All"] })),
            ("backoffLimit", json!({ "type": "integer", "minimum": 0 })),
            ("activeDeadlineSeconds", json!({ "type": "integer", "minimum": 1 })),
        ],
    );
    let spec = object(
        1,
        &[
            ("mpiReplicaSpecs", object(2, &[("Launcher", replica.clone()), ("Worker", replica)])),
            ("slotsPerWorker", json!({ "type": "integer", "minimum": 1 })),
            ("sshAuthMountPath", json!({ "pattern": "^/" })),
            ("runPolicy", policy),
        ],
    );
    let metadata = object(1, &[("name", json!({ "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" }))]);
    object(
        4,
        &[
            ("apiVersion", json!({ "const": "kubeflow.org/v2beta1" })),
            ("kind", json!({ "const": "MPIJob" })),
            ("metadata", metadata),
            ("spec", spec),
        ],
    )
}

#[test]
fn the_example_is_a_job_of_the_mpi_operator() {
    let text = include_str!("../../../examples/kubernetes/plimsoll-mpijob.yaml");
    let manifest: Value = serde_yaml_ng::from_str(text).unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    let wrong: Vec<String> =
        validator.iter_errors(&manifest).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // A field that the operator does not know is found.
    let mut other = manifest.clone();
    other["spec"]["cleanPodPolicy"] = "All".into();
    assert!(!validator.is_valid(&other));

    let replicas = &manifest["spec"]["mpiReplicaSpecs"];
    let launcher = &replicas["Launcher"]["template"]["spec"]["containers"][0];
    let ranks = launcher["args"].as_array().unwrap().iter().skip_while(|word| **word != "-n").nth(1).unwrap();
    assert_eq!(ranks.as_str().unwrap(), replicas["Worker"]["replicas"].to_string(), "a rank for each worker");
    let worker = &replicas["Worker"]["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(worker["requests"], worker["limits"], "guaranteed, so not throttled below what it asked for");
    let labels = &replicas["Worker"]["template"]["metadata"]["labels"];
    let rule = &replicas["Worker"]["template"]["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        [0];
    assert_eq!(&rule["labelSelector"]["matchLabels"], labels, "no two workers on one node");
}
