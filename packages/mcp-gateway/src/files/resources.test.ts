import { expect, test } from 'vitest'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import type { ArtifactCaller } from './namespaces.ts'
import { ArtifactLinks } from './links.ts'
import { ArtifactResources } from './resources.ts'
import { Artifacts } from './artifacts.ts'
import { artifactsOptions } from '../../test/settings.ts'

const ada: ArtifactCaller = { principal: { id: 'ada', isAnonymous: false, scopes: [], claims: {} } }
const bob: ArtifactCaller = { principal: { id: 'bob', isAnonymous: false, scopes: [], claims: {} } }
const check = (): void => undefined

function open() {
  const store = new MemoryGatewayStore()
  const clock = { now: () => 1_700_000_000_000, after: () => () => {} }
  const artifacts = new Artifacts(artifactsOptions({ store, key: 'k', clock, readMaxBytes: 5 }))
  const links = new ArtifactLinks({
    scopes: artifacts.scopes,
    records: store.records,
    ttlMs: 900_000,
    baseUrl: () => 'https://gateway.example/artifacts',
    key: 'k',
    clock,
  })
  const resources = new ArtifactResources({ artifacts, links, pageSize: 1, clock })
  const write = (name: string, text: string) =>
    artifacts.write(ada, { name, bytes: new Blob([text]).stream(), runId: 'run_1' })
  const template = artifacts.uriTemplate
  return { artifacts, resources, template, write, [Symbol.asyncDispose]: () => store.close() }
}

test('lists, reads and completes artifacts of the caller', async () => {
  await using at = open()
  const { uri, sha256 } = await at.write('a.txt', 'hello')
  await at.write('b.bin', '\0\u0001')
  const first = await at.resources.list(ada, undefined)
  const second = await at.resources.list(ada, first.nextCursor)
  const names = [...first.resources, ...second.resources].map(({ name }) => name)
  expect(names.toSorted()).toEqual(['a.txt', 'b.bin'])
  const createdAt = '2023-11-14T22:13:20.000Z'
  const meta = { version: 1, sha256, createdAt, runId: 'run_1' }
  const { contents } = await at.resources.read(ada, uri, check)
  expect(contents).toMatchObject([{ uri, mimeType: 'text/plain', text: 'hello', _meta: meta }])
  const binary = await at.resources.read(ada, uri.replace('a.txt', 'b.bin'), check)
  expect(binary.contents).toMatchObject([{ blob: 'AAE=' }])
  const { resourceTemplates } = at.resources.templates()
  const template = resourceTemplates[0]?.uriTemplate ?? ''
  expect(template).toBe('artifact://{scope}/{name}{?version}')
  const argument = { template, name: 'name', value: 'a', given: undefined }
  expect(await at.resources.complete(ada, argument)).toEqual({
    values: ['a.txt'],
    hasMore: false,
  })
  expect(await at.resources.complete(bob, argument)).toEqual({ values: [] })
  expect(await at.resources.followed(ada, `${uri}?version=1`)).toBe(uri)
})

test('completes names in a chosen scope that the caller owns', async () => {
  await using at = open()
  const { scope } = await at.write('a.txt', 'hello')
  const nobody: ArtifactCaller = {
    principal: { id: 'mcp_user', isAnonymous: true, scopes: [], claims: {} },
  }
  const shared = await at.artifacts.write(nobody, {
    name: 'theirs.txt',
    bytes: new Blob(['x']).stream(),
  })
  const complete = (caller: ArtifactCaller, name: string, given?: Record<string, string>) =>
    at.resources.complete(caller, { template: at.template, name, value: '', given })
  expect(await complete(nobody, 'name')).toEqual({ values: [] })
  expect(await complete(nobody, 'name', { scope: shared.scope })).toMatchObject({
    values: ['theirs.txt'],
  })
  expect(await complete(nobody, 'name', { scope })).toMatchObject({ values: [] })
  expect(await complete(ada, 'name', { scope: 'nonsense' })).toMatchObject({ values: [] })
  expect(await complete(ada, 'scope')).toEqual({ values: [scope] })
  expect(await complete(bob, 'scope')).toEqual({ values: [] })
  expect(await complete(ada, 'version')).toEqual({ values: [] })
})

test('says that there are more than a hundred names', async () => {
  await using at = open()
  for (let n = 0; n < 101; n++) await at.write(`f${n}`, '1')
  const argument = { template: at.template, name: 'name', value: 'f', given: undefined }
  const completion = await at.resources.complete(ada, argument)
  expect(completion?.values).toHaveLength(100)
  expect(completion?.hasMore).toBe(true)
})

test('marks a version as fixed until it expires, and the latest one as changeable', async () => {
  await using at = open()
  const { uri, versionUri } = await at.write('a.txt', 'hello')
  expect(await at.resources.read(ada, versionUri, check)).toMatchObject({ fixedMs: 86_400_000 })
  expect(await at.resources.read(ada, uri, check)).toMatchObject({ fixedMs: 0 })
})

test('finds nothing for other callers, and links files that are too large', async () => {
  await using at = open()
  const { uri } = await at.write('a.txt', 'longer than five')
  await expect(at.resources.read(bob, uri, check)).rejects.toMatchObject({
    code: -32602,
    data: { uri },
  })
  expect(await at.resources.followed(bob, uri)).toBeUndefined()
  await expect(at.resources.list(bob, 'x.y')).rejects.toMatchObject({ code: -32602 })
  await expect(at.resources.read(ada, uri, check)).rejects.toMatchObject({
    data: { size: 16, downloadUrl: expect.stringContaining('https://gateway.example/artifacts/') },
  })
})
