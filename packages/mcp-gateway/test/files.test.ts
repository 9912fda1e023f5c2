import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'

import { deferred } from '@x/test-kit'
import { Hono } from 'hono'
import { afterAll, describe, expect, test } from 'vitest'

import { bearerAuth } from '../src/auth/bearer-auth.ts'
import type { GatewayOptions } from '../src/gateway-options.ts'
import { createGateway } from '../src/gateway.ts'
import type { OutputFile } from '../src/runs/agent-call.ts'
import type { AgentUpdate } from '../src/runs/agent-update.ts'
import type { Blobs } from '../src/store/gateway-store.ts'
import { DiskGatewayStore } from '../src/store/disk-gateway-store.ts'
import { MemoryGatewayStore } from '../src/store/memory-gateway-store.ts'
import { AgentsAtHand, type Behaviour } from './agents-at-hand.ts'
import {
  connectForFiles,
  connectPipe,
  FILE_CLIENTS,
  type Block,
  type CallAnswer,
  type FileClient,
} from './file-clients.ts'
import { ManualClock } from './manual-clock.ts'

const folder = await mkdtemp(join(tmpdir(), 'gateway-files-'))
afterAll(() => rm(folder, { recursive: true }))
let stores = 0

const STORES = {
  memory: () => new MemoryGatewayStore(),
  disk: () => new DiskGatewayStore(join(folder, String(stores++))),
} as const

const WAYS = FILE_CLIENTS.flatMap((kind) =>
  (['memory', 'disk'] as const).map((store) => ({ kind, store })),
)

const TOKENS = { ada: 'ada-has-a-token-of-her-own', bob: 'bob-has-a-token-of-his-own' }

function image(bytes: number): Uint8Array {
  const png = new Uint8Array(bytes)
  png.set([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
  return png
}

/** Says a word, and gives files, in this order. */
function giving(...files: readonly OutputFile[]): Behaviour {
  return function* give(): Iterable<AgentUpdate> {
    for (const file of files) yield { type: 'file', file }
    yield { type: 'text', text: 'Here they are' }
    yield { type: 'done' }
  }
}

const textFile = (name: string, text: string): OutputFile => ({ name, data: Buffer.from(text) })

/** Says what is in the files it is given. */
const reader: Behaviour = async function* read({ input }): AsyncIterable<AgentUpdate> {
  for (const file of input.files) {
    let text = ''
    for await (const chunk of file.read()) text += Buffer.from(chunk).toString()
    yield { type: 'text', text: `${file.name} (${file.mimeType}, ${file.size}): ${text}` }
  }
  yield { type: 'done' }
}

async function serve(
  behaviours: Readonly<Record<string, Behaviour>>,
  options: GatewayOptions = {},
) {
  const gateway = createGateway({ ...options, sources: [new AgentsAtHand(behaviours)] })
  const { url } = await gateway.listen({ port: 0 })
  return {
    url,
    files: url.replace('/mcp', '/artifacts'),
    async [Symbol.asyncDispose]() {
      await gateway.close()
      await options.store?.close()
    },
  }
}

function twoPeople(): GatewayOptions['auth'] {
  const scopes = ['*']
  return bearerAuth({
    ada: { token: TOKENS.ada, scopes },
    bob: { token: TOKENS.bob, scopes },
  })
}

function uriOf(block: Block | undefined): string {
  const {
    uri,
    resource,
    _meta: meta,
  } = (block ?? {}) as unknown as {
    uri?: string
    resource?: { uri: string }
    _meta?: { uri?: string }
  }
  return uri ?? resource?.uri ?? meta?.uri ?? ''
}

function textOf({ content }: CallAnswer): string {
  return content.map((block) => (typeof block['text'] === 'string' ? block['text'] : '')).join('\n')
}

/** What went wrong, as far as a client sees it. */
async function refusalOf(promise: Promise<unknown>): Promise<object> {
  const error: unknown = await promise.then(
    () => new Error('It went well'),
    (reason: unknown) => reason,
  )
  const { code, data, message } = error as { code?: number; data?: object; message: string }
  return { code, data, message: message.replaceAll(/artifact:\S+/g, '<uri>') }
}

describe.each(WAYS)('a client ($kind) of a gateway with its store in $store', ({ kind, store }) => {
  test('gets text first, then each file: inline up to the limit, beyond it as a link', async () => {
    const files = [
      { name: 'fits.png', data: image(1000) },
      { name: 'notes.md', data: Buffer.from('# Notes') },
      { name: 'large.png', data: image(1001) },
      { name: 'bytes.bin', data: new Uint8Array(500) },
      { name: 'more.bin', data: new Uint8Array(501) },
    ]
    const inline = { imageMaxBytes: 1000, binaryMaxBytes: 500 }
    await using at = await serve({ give: giving(...files) }, { inline, store: STORES[store]() })
    await using client = await connectForFiles(kind, at.url)
    const { content } = await client.call('give', { message: 'Go' })
    expect(content.map(({ type }) => type)).toEqual([
      'text',
      'image',
      'resource',
      'resource_link',
      'resource',
      'resource_link',
    ])
    const [text, png, notes, link] = content
    expect(text).toMatchObject({ text: 'Here they are' })
    expect(png).toMatchObject({
      data: Buffer.from(image(1000)).toString('base64'),
      mimeType: 'image/png',
    })
    expect(notes).toMatchObject({ resource: { text: '# Notes', mimeType: 'text/markdown' } })
    expect(link).toMatchObject({ name: 'large.png', mimeType: 'image/png', size: 1001 })
  })

  test('reads every file of its runs by the URI in the result, and finds it in the list', async () => {
    const files = [textFile('é a.txt', 'small'), { name: 'b.bin', data: new Uint8Array(600) }]
    await using at = await serve(
      { give: giving(...files) },
      { inline: { binaryMaxBytes: 500 }, store: STORES[store](), auth: twoPeople() },
    )
    await using client = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    const { content } = await client.call('give', { message: 'Go' })
    const [, text, link] = content
    const read = await client.read(uriOf(text))
    expect(read).toMatchObject({ text: 'small', mimeType: 'text/plain', _meta: { version: 1 } })
    expect(await client.read(uriOf(link))).toMatchObject({
      blob: Buffer.from(new Uint8Array(600)).toString('base64'),
    })
    const listed = await client.resources()
    const sizes = Object.fromEntries(listed.map(({ name, size }) => [name, size]))
    expect(sizes).toEqual({ 'é a.txt': 5, 'b.bin': 600 })
    const [template = ''] = await client.templates()
    expect(template).toBe('artifact://{scope}/{name}{?version}')
    expect(await client.complete(template, 'b')).toEqual(['b.bin'])
  })

  test('the same name twice are two versions, and the very same file is shown once', async () => {
    const files = ['one', 'two', 'two'].map((text) => textFile('plan.txt', text))
    await using at = await serve(
      { give: giving(...files) },
      { store: STORES[store](), auth: twoPeople() },
    )
    await using client = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    const { content } = await client.call('give', { message: 'Go' })
    const uris = content.slice(1).map(uriOf)
    expect(uris.map((uri) => uri.split('?')[1])).toEqual(['version=1', 'version=2'])
    const uri = uris[0]?.split('?')[0] ?? ''
    expect(await client.read(`${uri}?version=1`)).toMatchObject({ text: 'one' })
    expect(await client.read(uri)).toMatchObject({ text: 'two', _meta: { version: 2 } })
    expect(await client.resources()).toMatchObject([{ uri, name: 'plan.txt' }])
    expect(await refusalOf(client.read(`${uri}?version=3`))).toMatchObject({ code: -32602 })
  })

  test('is told of a new version of what it follows', async () => {
    let version = 0
    const give: Behaviour = function* giveNext(): Iterable<AgentUpdate> {
      yield { type: 'file', file: textFile('plan.txt', `version ${++version}`) }
      yield { type: 'done' }
    }
    await using at = await serve({ give }, { store: STORES[store](), auth: twoPeople() })
    const updated = deferred<string>()
    const listChanged = deferred()
    await using client = await connectForFiles(kind, at.url, {
      token: TOKENS.ada,
      onUpdated: updated.resolve,
      onListChanged: listChanged.resolve,
    })
    const { content } = await client.call('give', { message: 'Go' })
    await listChanged.promise
    const versioned = uriOf(content.at(-1))
    const uri = versioned.split('?')[0] ?? ''
    expect(await client.follow(kind === 'v1' ? uri : versioned)).toEqual([uri])
    await client.call('give', { message: 'Again' })
    await expect(updated.promise).resolves.toBe(uri)
    expect(await client.read(uri)).toMatchObject({ text: 'version 2' })
  })

  test('finds nothing of another caller’s, however it asks', async () => {
    const behaviours = { give: giving(textFile('secret.txt', 'of Ada')), reader }
    await using at = await serve(behaviours, { store: STORES[store](), auth: twoPeople() })
    await using ada = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    await using bob = await connectForFiles(kind, at.url, { token: TOKENS.bob })
    const answer = await ada.call('give', { message: 'Go' })
    const uri = uriOf(answer.content.at(-1))
    const nowhere = uri.replace('secret', 'nothing')

    expect(await bob.resources()).toEqual([])
    const refusal = await refusalOf(bob.read(uri))
    expect(refusal).toMatchObject({ code: -32602, data: { uri } })
    expect(refusal).toEqual({ ...(await refusalOf(ada.read(nowhere))), data: { uri } })
    const handed = await bob.call('reader', { message: 'Read', files: [uri] })
    expect(handed).toMatchObject({ isError: true, _meta: { reason: 'invalid_arguments' } })
    expect(textOf(handed)).toContain('/files/0')
    const followed = await bob.follow(uri).catch((error: Error) => [error.message])
    expect(followed.join()).toMatch(kind === 'v1' ? /not found/i : /^$/)
    const path = uri.replace('artifact://', `${at.files}/`)
    const headers = { authorization: `Bearer ${TOKENS.bob}` }
    const [his, none, hers] = await Promise.all([
      fetch(path, { headers }),
      fetch(path.replace('secret', 'nothing'), { headers }),
      fetch(path, { headers: { authorization: `Bearer ${TOKENS.ada}` } }),
    ])
    expect([his.status, none.status, hers.status]).toEqual([404, 404, 200])
    expect(await his.text()).toBe(await none.text())
    expect(await hers.text()).toBe('of Ada')
    expect((await fetch(path)).status).toBe(401)
  })

  test('uploads by a link, and hands the file to an agent by its URI', async () => {
    const artifacts = { upload: { linkTool: true } }
    await using at = await serve(
      { reader },
      { store: STORES[store](), artifacts, auth: twoPeople() },
    )
    await using client = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    const { structuredContent } = await client.call('artifact_upload_link', { name: 'data.csv' })
    expect(structuredContent).toMatchObject({ method: 'PUT', maxBytes: 104_857_600 })
    const answer = await fetch(String(structuredContent?.['url']), {
      method: 'PUT',
      headers: { 'content-type': 'text/csv' },
      body: 'a,b\n1,2\n',
    })
    expect(answer.status).toBe(201)
    const { uri } = (await answer.json()) as { uri: string }
    const result = await client.call('reader', { message: 'Read', files: [uri] })
    expect(textOf(result)).toBe('data.csv (text/csv, 8): a,b\n1,2\n')
    const complaint = await client.call('artifact_upload_link', { name: '' })
    expect(complaint).toMatchObject({ isError: true, _meta: { reason: 'invalid_arguments' } })
  })

  test('downloads what is too large to be read, by a link that is signed and ends', async () => {
    const clock = new ManualClock()
    const large = textFile('large.json', JSON.stringify({ text: 'x'.repeat(5000) }))
    await using at = await serve(
      { give: giving(large) },
      { store: STORES[store](), auth: twoPeople(), clock, artifacts: { readMaxBytes: 1000 } },
    )
    await using client = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    const { content } = await client.call('give', { message: 'Go' })
    const refusal = await refusalOf(client.read(uriOf(content.at(-1))))
    expect(refusal).toMatchObject({ data: { size: 5011, downloadUrl: expect.any(String) } })
    const { downloadUrl: url } = (refusal as { data: { downloadUrl: string } }).data
    expect(url).toContain(`${at.files}/`)
    const whole = await fetch(url)
    expect(whole.headers.get('content-length')).toBe('5011')
    expect(await whole.json()).toEqual({ text: 'x'.repeat(5000) })
    const part = await fetch(url, { headers: { range: 'bytes=0-7' } })
    expect([part.status, await part.text()]).toEqual([206, '{"text":'])
    expect(
      (await fetch(url.replace(/sig=./, (start) => (start === 'sig=A' ? 'sig=B' : 'sig=A'))))
        .status,
    ).toBe(404)
    await clock.advance(900_000)
    expect((await fetch(url)).status).toBe(404)
  })

  test('has as much room as its quota, and files for as long as they are kept', async () => {
    const clock = new ManualClock()
    const files = ['a', 'b', 'c'].map((name) => textFile(`${name}.txt`, name))
    await using at = await serve(
      { give: giving(...files) },
      {
        store: STORES[store](),
        auth: twoPeople(),
        clock,
        artifacts: { quota: { countPerPrincipal: 2 }, ttlMs: 60_000 },
      },
    )
    await using client = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    const answer = await client.call('give', { message: 'Go' })
    expect(answer.isError ?? false).toBe(false)
    expect(textOf(answer)).toMatch(/"c\.txt" could not be kept: No room/)
    const [a] = await client.resources()
    const names = (await client.resources()).map(({ name }) => name)
    expect(names.toSorted()).toEqual(['a.txt', 'b.txt'])
    await clock.advance(61_000)
    expect(await client.resources()).toEqual([])
    expect(await refusalOf(client.read(a?.uri ?? ''))).toMatchObject({ code: -32602 })
    const again = await client.call('give', { message: 'There is room again' })
    expect(again.content.filter(({ type }) => type === 'resource')).toHaveLength(2)
  })

  test('gets less in one result if its profile says so', async () => {
    const files = [textFile('a.txt', 'x'.repeat(50)), textFile('b.txt', 'y'.repeat(60))]
    const inline = { totalMaxBytes: 110, clientProfiles: [{ match: '^small', totalMaxBytes: 100 }] }
    await using at = await serve({ give: giving(...files) }, { store: STORES[store](), inline })
    const kinds = async (name: string): Promise<readonly string[]> => {
      await using client = await connectForFiles(kind, at.url, { name })
      return (await client.call('give', { message: 'Go' })).content.map(({ type }) => type)
    }
    expect(await kinds('large client')).toEqual(['text', 'resource', 'resource'])
    expect(await kinds('small client')).toEqual(['text', 'resource', 'resource_link', 'text'])
  })
})

test('a session that follows a file no longer is told of others only', async () => {
  let version = 0
  const give: Behaviour = function* giveNext(): Iterable<AgentUpdate> {
    version++
    for (const name of ['a', 'b']) yield { type: 'file', file: textFile(name, `${version}`) }
    yield { type: 'done' }
  }
  await using at = await serve({ give })
  const heard: string[] = []
  const listChanged = deferred()
  const second = deferred()
  await using client = await connectForFiles('v1', at.url, {
    onListChanged: listChanged.resolve,
    onUpdated: (uri) => {
      heard.push(uri)
      if (uri.endsWith('/b')) second.resolve()
    },
  })
  const { content } = await client.call('give', { message: 'Go' })
  const [a = '', b = ''] = content.map(uriOf).map((uri) => uri.split('?')[0] ?? '')
  await listChanged.promise // what was written so far is told by then
  await Promise.all([client.follow(`${a}?version=1`), client.follow(b)])
  await client.unfollow(a)
  await client.call('give', { message: 'Again' })
  await second.promise
  expect(heard).toEqual([b])
})

describe('callers without a name', () => {
  test('have the files of their session, and no other has', async () => {
    await using at = await serve({ give: giving(textFile('a.txt', 'mine')), reader })
    await using first = await connectForFiles('v1', at.url)
    await using second = await connectForFiles('v1', at.url)
    await using modern = await connectForFiles('v2 pinned', at.url)
    const { content } = await first.call('give', { message: 'Go' })
    const uri = uriOf(content.at(-1))
    expect(await first.read(uri)).toMatchObject({ text: 'mine' })
    expect(await first.resources()).toMatchObject([{ name: 'a.txt' }])
    const scope = new URL(uri).host
    for (const other of [second, modern] satisfies readonly FileClient[]) {
      expect(await other.resources()).toEqual([])
      expect(await refusalOf(other.read(uri))).toMatchObject({ code: -32602 })
      const handed = await other.call('reader', { message: 'Read', files: [uri] })
      expect(handed).toMatchObject({ isError: true })
      const given = await other.call('give', { message: 'Into it', scope })
      expect(textOf(given)).toMatch(/could not be kept/)
    }
    expect((await fetch(uri.replace('artifact://', `${at.files}/`))).status).toBe(404)
  })

  test('from one address have the room of one, however many sessions they open', async () => {
    const artifacts = { quota: { countPerPrincipal: 1 } }
    await using at = await serve({ give: giving(textFile('a.txt', 'mine')) }, { artifacts })
    await using first = await connectForFiles('v1', at.url)
    await using second = await connectForFiles('v1', at.url)
    expect(textOf(await first.call('give', { message: 'Go' }))).toBe('Here they are\n')
    const refused = await second.call('give', { message: 'Go' })
    expect(textOf(refused)).toMatch(/"a\.txt" could not be kept: No room/)
    const put = await fetch(`${at.files}/b.txt`, { method: 'PUT', body: 'b' })
    expect([put.status, await put.json()]).toMatchObject([507, { error: 'QUOTA' }])
  })

  test('without a session have a new scope for each call, or that of an earlier one', async () => {
    await using at = await serve({ give: giving(textFile('a.txt', 'mine')) })
    await using client = await connectForFiles('v2 pinned', at.url)
    const uris: string[] = []
    for (let n = 0; n < 2; n++) {
      uris.push(uriOf((await client.call('give', { message: 'Go' })).content.at(-1)))
    }
    const [first = '', second = ''] = uris
    const scope = new URL(first).host
    expect(new URL(second).host).not.toBe(scope)
    expect(await client.read(first)).toMatchObject({ text: 'mine' })
    const third = await client.call('give', { message: 'Go', scope })
    expect(uriOf(third.content.at(-1))).toBe(first.replace('version=1', 'version=2'))
    expect(await client.resources()).toEqual([])
    expect((await fetch(first.replace('artifact://', `${at.files}/`))).status).toBe(200)
  })

  test('are told by the list of tools what there is, and only that', async () => {
    const properties = async (options: GatewayOptions): Promise<readonly string[]> => {
      await using at = await serve({ reader }, options)
      await using client = await connectForFiles('v1', at.url, { token: TOKENS.ada })
      const tools = await client.tools()
      const { inputSchema } = tools.find(({ name }) => name === 'reader') ?? { inputSchema: {} }
      const names = Object.keys((inputSchema as { properties: object }).properties)
      return [
        ...names.filter((name) => name !== 'resume'),
        ...tools.map(({ name }) => name).filter((name) => name !== 'reader'),
      ]
    }
    expect(await properties({})).toEqual(['message', 'files', 'scope'])
    expect(await properties({ auth: twoPeople() })).toEqual(['message', 'files'])
    const publicUrl = 'https://agents.example'
    const linked = { auth: twoPeople(), http: { publicUrl, allowedHosts: ['127.0.0.1'] } }
    expect(await properties(linked)).toEqual(['message', 'files', 'artifact_upload_link'])
    const off = { artifacts: { upload: { enabled: false } }, auth: twoPeople() }
    expect(await properties(off)).toEqual(['message'])
    const none = { artifacts: { enabled: false }, auth: twoPeople() }
    expect(await properties(none)).toEqual(['message'])
  })
})

describe.each([
  { era: 'legacy', mode: 'legacy' as const },
  { era: 'modern', mode: { pin: '2026-07-28' } },
])('over a pipe, a client of the $era era', ({ mode }) => {
  test('has its files, hands them on, and is told of new versions', async () => {
    let version = 0
    const give: Behaviour = function* giveNext(): Iterable<AgentUpdate> {
      yield { type: 'file', file: textFile('plan.txt', `version ${++version}`) }
      yield { type: 'done' }
    }
    await using gateway = createGateway({ sources: [new AgentsAtHand({ give, reader })] })
    const pipe = { input: new PassThrough(), output: new PassThrough() }
    await using connection = gateway.serveStdio(pipe)
    const updated = deferred<string>()
    await using client = await connectPipe(pipe, { mode, onUpdated: updated.resolve })
    const { content } = await client.call('give', { message: 'Go' })
    const uri = uriOf(content.at(-1)).split('?')[0] ?? ''
    expect(await client.resources()).toMatchObject([{ uri }])
    expect(await client.read(uri)).toMatchObject({ text: 'version 1' })
    const result = await client.call('reader', { message: 'Read', files: [uri] })
    expect(textOf(result)).toContain('version 1')
    await client.follow(uri)
    await client.call('give', { message: 'Again' })
    await expect(updated.promise).resolves.toBe(uri)
    await connection.close()
  })
})

describe('uploads', () => {
  test('need a credential, or a link that has not ended', async () => {
    const clock = new ManualClock()
    const store = new MemoryGatewayStore({ now: () => clock.now() })
    const artifacts = { upload: { linkTool: true, maxBytes: 10 } }
    await using at = await serve({ reader }, { auth: twoPeople(), artifacts, clock, store })
    await using client = await connectForFiles('v1', at.url, { token: TOKENS.ada })
    const put = (url: string, body: string, headers = {}): Promise<Response> =>
      fetch(url, { method: 'PUT', body, headers })
    const url = `${at.files}/notes.txt`
    const headers = { authorization: `Bearer ${TOKENS.ada}` }
    expect((await put(url, 'hello')).status).toBe(401)
    const kept = await put(url, 'hello', headers)
    expect(await kept.json()).toMatchObject({ uri: expect.stringMatching(/^artifact:/), size: 5 })
    expect((await client.resources()).map(({ name }) => name)).toEqual(['notes.txt'])
    expect((await put(url, 'more than ten', headers)).status).toBe(413)
    expect((await fetch(url, { method: 'DELETE', headers })).status).toBe(405)
    const { structuredContent } = await client.call('artifact_upload_link', { name: 'a.txt' })
    const link = String(structuredContent?.['url'])
    expect((await put(link.replace('a.txt', 'b.txt'), 'x')).status).toBe(404)
    expect((await put(link, 'x')).status).toBe(201)
    await clock.advance(900_000)
    expect((await put(link, 'x')).status).toBe(404)
  })

  test('are stored as they arrive', async () => {
    const store = new MemoryGatewayStore()
    const { blobs } = store
    const arrived = deferred()
    Object.defineProperty(store, 'blobs', {
      value: {
        read: blobs.read.bind(blobs),
        delete: blobs.delete.bind(blobs),
        write: (bytes: AsyncIterable<Uint8Array>, limit: number) => {
          async function* watched(): AsyncGenerator<Uint8Array> {
            for await (const chunk of bytes) {
              arrived.resolve()
              yield chunk
            }
          }
          return blobs.write(watched(), limit)
        },
      } satisfies Blobs,
    })
    await using at = await serve({ reader }, { store })
    const body = new ReadableStream<Uint8Array>({
      async start(controller) {
        controller.enqueue(Buffer.from('first, '))
        await arrived.promise // the rest is not even sent before the store has the beginning
        controller.enqueue(Buffer.from('then the rest'))
        controller.close()
      },
    })
    const init: RequestInit & { duplex: 'half' } = { method: 'PUT', body, duplex: 'half' }
    const answer = await fetch(`${at.files}/notes.txt`, init)
    const { uri } = (await answer.json()) as { uri: string }
    const path = uri.replace('artifact://', `${at.files}/`)
    expect(await (await fetch(path)).text()).toBe('first, then the rest')
  })
})

test('an agent that cannot keep what it needs ends with a reason of its own', async () => {
  const keep: Behaviour = async function* keepIt({ artifacts }): AsyncIterable<AgentUpdate> {
    await artifacts.write({ name: 'large.bin', data: new Uint8Array(100) })
    yield { type: 'done', text: 'Kept' }
  }
  await using at = await serve({ keep }, { artifacts: { quota: { bytesPerPrincipal: 99 } } })
  await using client = await connectForFiles('v1', at.url)
  const answer = await client.call('keep', { message: 'Go' })
  expect(answer).toMatchObject({ isError: true, _meta: { reason: 'no_room' } })
  expect(textOf(answer)).toContain('99')
})

test('mounted in an application, files are below the same path', async () => {
  await using gateway = createGateway({
    sources: [new AgentsAtHand({ give: giving({ name: 'a.bin', data: new Uint8Array(9) }) })],
    auth: bearerAuth(TOKENS.ada),
    artifacts: { baseUrl: 'https://agents.example/mcp/artifacts/', readMaxBytes: 8 },
  })
  const app = new Hono().mount('/mcp', gateway.fetch)
  const headers = { authorization: `Bearer ${TOKENS.ada}`, host: 'agents.example' }
  const ask = (path: string, init: RequestInit = {}): Response | Promise<Response> =>
    app.request(`https://agents.example/mcp${path}`, { headers, ...init })
  const put = await ask('/artifacts/notes.txt', { method: 'PUT', body: 'some notes' })
  expect(put.status).toBe(201)
  const { uri } = (await put.json()) as { uri: string }
  const got = await ask(uri.replace('artifact://', '/artifacts/'))
  expect(await got.text()).toBe('some notes')
  const message = (method: string, params: object): RequestInit => ({
    method: 'POST',
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
    headers: {
      ...headers,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      'mcp-name': uri,
    },
  })
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  }
  const read = await ask('/', message('resources/read', { uri, _meta: meta }))
  const { error } = (await read.json()) as { error: { data: { downloadUrl: string } } }
  const { downloadUrl } = error.data
  expect(downloadUrl).toMatch(/^https:\/\/agents\.example\/mcp\/artifacts\/\w{26}\/notes\.txt\?/)
  expect(await (await app.request(downloadUrl, { headers: { host: 'x' } })).text()).toBe(
    'some notes',
  )
})

test('files that an agent gives by URL are fetched by way of the guard', async () => {
  const asked: string[] = []
  const give = giving({ name: 'chart.png', data: { url: 'https://files.example/chart.png' } })
  const artifacts = {
    fetch: async (url: string | URL | Request): Promise<Response> => {
      asked.push(url instanceof Request ? url.url : String(url))
      return new Response(image(100))
    },
  }
  await using at = await serve({ give }, { artifacts })
  await using client = await connectForFiles('v1', at.url)
  const { content } = await client.call('give', { message: 'Go' })
  expect(content.at(-1)).toMatchObject({ type: 'image', mimeType: 'image/png' })
  expect(asked).toEqual(['https://files.example/chart.png'])
})

test('an address that must not be asked costs the file, not the answer', async () => {
  const give = giving({ name: 'x', data: { url: 'http://169.254.169.254/latest/meta-data' } })
  await using at = await serve({ give })
  await using client = await connectForFiles('v2 pinned', at.url)
  const answer = await client.call('give', { message: 'Go' })
  expect(textOf(answer)).toMatch(/^Here they are\n?.*could not be kept/s)
  expect(answer.isError ?? false).toBe(false)
})
