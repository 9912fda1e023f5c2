// The numbers and the commands of compose.yaml, of the manifests and of gateway.yaml fit together.
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { Deployment } from 'kubernetes-models/apps/v1'
import { Job } from 'kubernetes-models/batch/v1'
import { Ingress } from 'kubernetes-models/networking.k8s.io/v1'
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1'
import { Service, type IPodSpec } from 'kubernetes-models/v1'
import { parse, parseAllDocuments } from 'yaml'
import { readCompose } from './cluster.ts'

const KINDS = { Deployment, Ingress, Job, PodDisruptionBudget, Service }

interface Settings {
  readonly http: { readonly drainDelayMs: number; readonly shutdownGraceMs: number }
}

async function readManifests() {
  const texts = await Promise.all(
    ['gateway', 'worker'].map((name) => readFile(`kubernetes/${name}.yaml`, 'utf8')),
  )
  return texts.flatMap((text) => parseAllDocuments(text).map((each) => each.toJS()))
}

const manifests = await readManifests()
const { services } = await readCompose()
const { http }: Settings = parse(await readFile('gateway.yaml', 'utf8'))

for (const manifest of manifests) {
  test(`${manifest.kind} ${manifest.metadata.name} is valid`, () => {
    const Kind = KINDS[manifest.kind as keyof typeof KINDS]
    new Kind(manifest).validate()
  })
}

/** The pod of a Deployment. */
function podOf(name: string): IPodSpec {
  const found = manifests.find((each) => each.kind === 'Deployment' && each.metadata.name === name)
  return found.spec.template.spec
}

for (const [name, service, drainMs] of [
  ['gateway', 'gateway-1', http.drainDelayMs],
  ['worker', 'worker', 0], // no load balancer sends it calls
] as const) {
  test(`${name} has time to end, probes, and the command of compose.yaml`, () => {
    const { containers, terminationGracePeriodSeconds = 30 } = podOf(name)
    const [container] = containers
    assert.ok(container)
    const preStop = container.lifecycle?.preStop?.sleep?.seconds ?? 0
    const needed = drainMs + http.shutdownGraceMs
    assert.ok(terminationGracePeriodSeconds > preStop + needed / 1000)
    assert.ok(Number.parseInt(services[service]?.stop_grace_period ?? '0') > needed / 1000)
    assert.deepEqual(container.args, services[service]?.command)
    assert.equal(container.startupProbe?.httpGet?.path, '/healthz')
    assert.equal(container.livenessProbe?.httpGet?.path, '/healthz')
    assert.equal(container.readinessProbe?.httpGet?.path, '/readyz')
    assert.ok((container.readinessProbe?.timeoutSeconds ?? 1) > 2, 'a store has 2 s to answer')
    assert.equal(container.securityContext?.readOnlyRootFilesystem, true)
  })
}

test('both gateways are the same, and everything that compose.yaml names is there', async () => {
  assert.deepEqual(services['gateway-1'], services['gateway-2'])
  const nginx = await readFile('nginx.conf', 'utf8')
  for (const [, name = ''] of nginx.matchAll(/server ([\w-]+):8000;/g)) assert.ok(services[name])
  const { volumes } = parse(await readFile('compose.yaml', 'utf8'))
  for (const { depends_on: needed = {}, volumes: mounts = [] } of Object.values(services)) {
    for (const name of Array.isArray(needed) ? needed : Object.keys(needed)) {
      assert.ok(services[name], name)
    }
    for (const [source = ''] of mounts.map((each) => each.split(':'))) {
      if (source.startsWith('./')) await readFile(source)
      else assert.ok(source in volumes, source)
    }
  }
  for (const [name, { depends_on: needed = {} }] of Object.entries(services)) {
    for (const [other, how] of Object.entries(Array.isArray(needed) ? {} : needed)) {
      if (how.condition !== 'service_healthy') continue
      assert.ok(services[other]?.healthcheck, `${name} waits for the health of ${other}`)
    }
  }
})

test('the ingress serves the prefix of PUBLIC_URL', () => {
  const [container] = podOf('gateway').containers
  const { value = '' } = container?.env?.find(({ name }) => name === 'PUBLIC_URL') ?? {}
  const { hostname, pathname } = new URL(value)
  const ingress = manifests.find(({ kind }) => kind === 'Ingress')
  const [rule] = ingress.spec.rules
  assert.equal(rule.host, hostname)
  assert.deepEqual(
    rule.http.paths.map(({ path }: { path: string }) => path),
    [`${pathname}/`, `/.well-known/oauth-protected-resource${pathname}/mcp`],
  )
})
