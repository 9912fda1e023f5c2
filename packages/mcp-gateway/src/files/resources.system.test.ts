import { expect, test } from 'vitest'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import type { Caller } from '../internal/principal.ts'
import { ArtifactLinks } from './links.ts'
import { URI_TEMPLATE } from './uri.ts'
import { ArtifactResources } from './resources.ts'
import { Artifacts } from './artifacts.ts'
import { bytesOf, named, nobody } from '../../test/artifact-world.ts'
import { artifactsOptions } from '../../test/settings.ts'

const [ada, bob] = [named('ada'), named('bob')]

function open() {
  const store = new MemoryGatewayStore()
  const clock = { now: () => 1_700_000_000_000, after: () => () => {} }
  const artifacts = new Artifacts(artifactsOptions({ store, key: 'k', clock, readMaxBytes: 5 }))
  const links = new ArtifactLinks({
    baseUrl: () => 'https://gateway.example/artifacts',
    key: 'k',
    clock,
  })
  const resources = new ArtifactResources({ artifacts, links, pageSize: 1, clock })
  const write = (name: string, text: string) =>
    artifacts.write(ada, { name, bytes: new Blob([text]).stream(), runId: 'run_1' })
  const template = URI_TEMPLATE
  return { artifacts, resources, template, write, [Symbol.asyncDispose]: () => store.close() }
}

test('completes names in a chosen scope that the caller owns', async () => {
  await using at = open()
  const { scope } = await at.write('a.txt', 'hello')
  const stranger = { principal: nobody }
  const shared = await at.artifacts.write(stranger, { name: 'theirs.txt', bytes: bytesOf('x') })
  const complete = (caller: Caller, name: string, given?: Record<string, string>) =>
    at.resources.complete(caller, { template: at.template, name, value: '' }, given)
  expect(await complete(stranger, 'name')).toEqual({ values: [] })
  expect(await complete(stranger, 'name', { scope: shared.scope })).toMatchObject({
    values: ['theirs.txt'],
  })
  expect(await complete(stranger, 'name', { scope })).toMatchObject({ values: [] })
  expect(await complete(ada, 'name', { scope: 'nonsense' })).toMatchObject({ values: [] })
  expect(await complete(ada, 'scope')).toEqual({ values: [scope] })
  expect(await complete(bob, 'scope')).toEqual({ values: [] })
  expect(await complete(ada, 'version')).toEqual({ values: [] })
})

test('says that there are more than a hundred names', async () => {
  await using at = open()
  for (let n = 0; n < 101; n++) await at.write(`f${n}`, '1')
  const argument = { template: at.template, name: 'name', value: 'f' }
  const completion = await at.resources.complete(ada, argument)
  expect(completion?.values).toHaveLength(100)
  expect(completion?.hasMore).toBe(true)
})

test('refuses the cursor of another list', async () => {
  await using at = open()
  await expect(at.resources.list(bob, 'x.y')).rejects.toMatchObject({ code: -32602 })
})
