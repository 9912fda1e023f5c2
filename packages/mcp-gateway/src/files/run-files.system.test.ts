import { once } from 'node:events'
import { createServer } from 'node:http'
import { expect, test } from 'vitest'
import { Artifacts } from './artifacts.ts'
import { newScopeId } from './scopes.ts'
import type { EarlierFiles, RunFiles } from './result-files.ts'
import { gatewayFiles } from './run-files.ts'
import type { GatewayFilesOptions } from './run-files.ts'
import { createGuardedFetch } from '../internal/guarded-fetch.ts'
import type { Principal } from '../internal/principal.ts'
import type { InlineSettings } from '../options.ts'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import { bytesOf, inMemory, named, nobody, openWorld } from '../../test/artifact-world.ts'
import { artifactsOptions, DEFAULTS } from '../../test/settings.ts'

interface World extends AsyncDisposable {
  readonly artifacts: Artifacts
  readonly files: RunFiles
  readonly stop: AbortController
}

interface WorldOptions extends Partial<Omit<GatewayFilesOptions, 'inline'>> {
  readonly inline?: Partial<InlineSettings>
  readonly earlier?: EarlierFiles
  readonly principal?: Principal
}

function world(options: WorldOptions = {}): World {
  const store = new MemoryGatewayStore()
  const own = new Artifacts(artifactsOptions({ store }))
  const stop = new AbortController()
  const { earlier, principal = named('ada').principal, artifacts = own } = options
  const files = gatewayFiles({
    maxBytes: 1_000_000,
    ...options,
    artifacts,
    inline: { ...DEFAULTS.inline, ...options.inline },
  }).open({
    runId: 'run_0123456789abcdef',
    agentId: 'a',
    caller: { principal },
    earlier,
    signal: stop.signal,
  })
  return { artifacts, files, stop, [Symbol.asyncDispose]: () => store.close() }
}

async function* chunks(count: number, size: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < count; index++) yield Buffer.alloc(size, 'x')
}

test('links a large file without a declared size, with its real size', async () => {
  await using it = world({ inline: { fileMaxBytes: 1000 } })
  await it.files.write({ name: 'log.txt', mimeType: 'text/plain', data: chunks(10, 1000) })
  expect(await it.files.blocks()).toEqual([
    expect.objectContaining({
      type: 'resource_link',
      name: 'log.txt',
      mimeType: 'text/plain',
      size: 10_000,
      description: 'text/plain, 10000 bytes',
    }),
    { type: 'text', text: `log.txt begins:\n${'x'.repeat(2000)}` },
  ])
})

test('gives the room of a result to files in their order, with links in between', async () => {
  await using it = world({ inline: { resultMaxBytes: 10 } })
  for (const [name, text] of [
    ['a', '12345678'],
    ['b', '123'],
    ['c', '12'],
  ] as const) {
    await it.files.write({ name, mimeType: 'application/zip', data: Buffer.from(text) })
  }
  const blocks = await it.files.blocks()
  expect(blocks.map(({ type }) => type)).toEqual(['resource', 'resource_link', 'resource'])
})

test('links files that do not fit into a result, and counts those for which there is no link', async () => {
  await using it = world()
  for (const name of ['a', 'b', 'c']) {
    await it.files.write({ name, data: Buffer.from(name === 'b' ? 'x' : 'x'.repeat(500)) })
  }
  expect((await it.files.blocks()).map(({ type }) => type)).toEqual(Array(3).fill('resource'))
  expect(await it.files.blocks(700)).toMatchObject([
    { type: 'resource_link', name: 'a' },
    { type: 'resource', resource: { text: 'x' } },
    { type: 'text', text: expect.stringContaining('no room for 1 more files') },
  ])
})

test('shows a link and the beginning of a text that is too large', async () => {
  await using it = world({ inline: { resultMaxBytes: 4 } })
  await it.files.write({ name: 'a.txt', data: Buffer.from('abcdefgh') })
  expect(await it.files.blocks()).toMatchObject([
    { type: 'resource_link', size: 8 },
    { type: 'text', text: 'a.txt begins:\nabcd' },
  ])
})

test('counts the beginnings of large texts towards the limit of a result', async () => {
  const lengthsFor = async (text: string): Promise<readonly number[]> => {
    await using it = world({ inline: { resultMaxBytes: 3000 } })
    for (const name of ['a', 'b', 'c']) {
      await it.files.write({ name: `${name}.txt`, data: Buffer.from(text) })
    }
    return (await it.files.blocks()).flatMap((block) =>
      block.type === 'text' ? [block.text.length - 'a.txt begins:\n'.length] : [],
    )
  }
  const header = 'a.txt begins:\n'.length
  expect(await lengthsFor('x'.repeat(5000))).toEqual([2000, 1000 - header])
  expect(await lengthsFor('é'.repeat(5000))).toEqual([1500])
})

test('shows each file of a paused run once, within one limit for all rounds', async () => {
  const inline = { resultMaxBytes: 20 }
  await using before = world({ inline })
  await before.files.write({ name: 'a.txt', data: Buffer.from('0123456789') })
  const earlier = await before.files.soFar()
  await using it = world({ inline, earlier: JSON.parse(JSON.stringify(earlier)) })
  await it.files.write({ name: 'a.txt', data: Buffer.from('0123456789') })
  await it.files.write({ name: 'b.txt', data: Buffer.from('01234567890') })
  await it.files.write({ name: 'c.txt', data: Buffer.from('') })
  const blocks = await it.files.blocks()
  expect(blocks).toMatchObject([
    { resource: { text: '0123456789' } },
    { type: 'resource_link', size: 11 },
    { type: 'text' },
    { resource: { text: '' } },
  ])
  expect(blocks.slice(0, 1)).toEqual(await before.files.blocks())
})

test('replaces large files of a paused run by links', async () => {
  await using it = world()
  await it.files.write({ name: 'large.txt', data: Buffer.from('x'.repeat(300_000)) })
  await it.files.write({ name: 'small.txt', data: Buffer.from('y') })
  const { blocks } = await it.files.soFar()
  expect(blocks).toMatchObject([
    { type: 'resource_link', name: 'large.txt', size: 300_000 },
    { resource: { text: 'y' } },
  ])
})

test('shows a text that is not UTF-8 as bytes, within the limit of bytes', async () => {
  await using it = world({ inline: { fileMaxBytes: 4 } })
  await it.files.write({ name: 'a.txt', mimeType: 'text/plain', data: Buffer.from([0x61, 0xff]) })
  const large = Buffer.from([0x61, 0xff, 0x61, 0x61, 0x61])
  await it.files.write({ name: 'b.txt', mimeType: 'text/plain', data: large })
  expect(await it.files.blocks()).toMatchObject([
    { type: 'resource', resource: { blob: 'Yf8=' } },
    { type: 'resource_link', size: 5 },
  ])
})

test('fetches a file by its URL through the guarded fetch', async () => {
  const server = createServer((request, response) => {
    if (request.url?.startsWith('/gone')) response.writeHead(404).end()
    else response.writeHead(200, { 'content-type': 'text/csv' }).end('a,b')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const origin = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
  try {
    await using it = world({ fetch: createGuardedFetch({ trustedOrigins: [origin] }) })
    await it.files.write({ name: 'a.csv', data: { url: `${origin}/a` } })
    expect(await it.files.blocks()).toMatchObject([
      { resource: { text: 'a,b', mimeType: 'text/csv' } },
    ])
    await expect(
      it.files.write({ name: 'b', data: { url: `${origin}/gone?token=secret` } }),
    ).rejects.toMatchObject({ code: 'UNAVAILABLE', message: expect.not.stringContaining('secret') })
    await using guarded = world()
    await expect(
      guarded.files.write({ name: 'c', data: { url: `${origin}/a` } }),
    ).rejects.toMatchObject({ code: 'REFUSED' })
  } finally {
    server.close()
  }
})

test('closes the source of a file that cannot be stored', async () => {
  const earlier = { blocks: [], shown: [], scope: newScopeId() }
  await using it = world({ principal: nobody, earlier })
  let closed = 0
  const data: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({
      next: async () => ({ done: false, value: Buffer.from('x') }),
      return: async () => ({ done: true, value: ++closed }),
    }),
  }
  await expect(it.files.write({ name: 'f', data })).rejects.toMatchObject({ code: 'NOT_FOUND' })
  expect(closed).toBe(1)
})

test('stores the files of a run without a name in one scope, in the order of the calls', async () => {
  await using it = world({ principal: nobody })
  const written = await Promise.all([
    it.files.write({ name: 'f', data: bytesOf('1') }),
    it.files.write({ name: 'f', data: bytesOf('2'), mimeType: 'text/x;nonsense\r\n' }),
    it.files.write({ name: 'g', data: bytesOf('3'), mimeType: 'text/csv; charset="utf-8"' }),
  ])
  expect(written.map(({ version }) => version)).toEqual([1, 2, 1])
  const { scope } = await it.files.soFar()
  const stored = await Promise.all(
    written.map(({ uri, version }) =>
      it.artifacts.find({ principal: nobody }, `${uri}?version=${version}`),
    ),
  )
  expect(stored.map((artifact) => artifact.scope)).toEqual([scope, scope, scope])
  expect(stored.map(({ mimeType }) => mimeType)).toEqual([
    'text/plain',
    'text/plain',
    'text/csv; charset="utf-8"',
  ])
})

test('ends the files of a run with it, also when a source hangs', async () => {
  await using stored = await openWorld(inMemory)
  await using it = world({ artifacts: stored.artifacts })
  const data: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({
      next: () => {
        it.stop.abort(new Error('the run is over'))
        return new Promise<never>(() => {})
      },
    }),
  }
  const writing = it.files.write({ name: 'f', data })
  await expect(writing).rejects.toThrow('the run is over')
  expect(await stored.keptBlobs()).toEqual([])
})
