# Measures every client of a Nomad region once; each writes its document to stdout.
#   nomad job run plimsoll.nomad.hcl
#   for a in $(nomad job allocs -json plimsoll | jq -r '.[].ID'); do nomad alloc logs "$a"; done | plimsoll gather - --html fleet.html
job "plimsoll" {
  type        = "sysbatch"
  datacenters = ["*"]
  group "node" {
    restart {
      attempts = 0
      mode     = "fail"
    }
    task "measure" {
      # raw_exec: without limits of its own. Clients allow it with plugin "raw_exec" { config { enabled = true } }
      driver = "raw_exec"
      artifact {
        source      = "https://files.example.com/plimsoll-x86_64"
        destination = "local/plimsoll"
        mode        = "file"
        # options { checksum = "sha256:…" }
      }
      config {
        command = "local/plimsoll"
        args    = ["run", "quick", "--store", "none", "--quiet", "--json", "-", "--dir", "local"]
      }
    }
  }
}
