import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { MemoryGatewayStore } from '../store/memory-store.ts'
import type { Caller } from '../internal/principal.ts'
import type { Artifact } from '../files/artifacts.ts'
import { ArtifactRoutes, countedBody, type BodyEnd } from './artifact-routes.ts'
import { ArtifactLinks } from '../files/links.ts'
import { Artifacts } from '../files/artifacts.ts'
import { newScopeId } from '../files/scopes.ts'
import { bytesOf, named } from '../../test/artifact-world.ts'
import { artifactsOptions } from '../../test/settings.ts'

const baseUrl = 'https://gateway.example/artifacts'
const [ada, bob] = [named('ada'), named('bob')]

const PNG = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

function open() {
  let time = 1_700_000_000_000
  const clock = { now: () => time, after: () => () => {} }
  const store = new MemoryGatewayStore({ now: clock.now })
  const key = 'k'.repeat(32)
  const artifacts = new Artifacts(
    artifactsOptions({
      store,
      key,
      clock,
      maxBytes: 1000,
      quota: 1500,
    }),
  )
  const links = new ArtifactLinks({
    baseUrl: () => baseUrl,
    key,
    clock,
  })
  const routes = new ArtifactRoutes({
    basePaths: [''],
    artifacts,
    links,
    maxUploadBytes: 1000,
    admission: { admit: notAsked, countAddress: notAsked },
    isDraining: () => false,
    observer: { fileTransferred: () => undefined },
    clock,
  })
  return {
    artifacts,
    linkTo: (artifact: Artifact) => links.downloadUrl(artifact) ?? '',
    pass: (ms: number) => void (time += ms),
    async get(url: string, caller?: Caller) {
      return routes.serve(new Request(url), caller)
    },
    async put(path: string, body: string | ReadableStream | null, caller?: Caller) {
      const url = path.startsWith('https:') ? path : `${baseUrl}/${path}`
      const init: RequestInit & { duplex: 'half' } = { method: 'PUT', body, duplex: 'half' }
      return routes.serve(new Request(url, init), caller)
    },
    routes,
    [Symbol.asyncDispose]: () => store.close(),
  }
}

function notAsked(): never {
  throw new Error('The caller is given to serve()')
}

test('sends the file to everyone who has its link, as a download that a browser never runs', async () => {
  await using at = open()
  const name = 'é "a";/b.html'
  const artifact = await at.artifacts.write(ada, { name, bytes: bytesOf('<script>') })
  const response = await at.get(at.linkTo(artifact))
  expect(response.status).toBe(200)
  expect(await response.text()).toBe('<script>')
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'text/html',
    'content-length': '8',
    'content-disposition': `attachment; filename="_ _a___b.html"; filename*=UTF-8''%C3%A9%20%22a%22%3B_b.html`,
    'content-security-policy': "sandbox; default-src 'none'",
    'x-content-type-options': 'nosniff',
  })
})

test('accepts a link for one version of one file until the link expires', async () => {
  await using at = open()
  const artifact = await at.artifacts.write(ada, { name: 'f', bytes: bytesOf('1') })
  await at.artifacts.write(ada, { name: 'f', bytes: bytesOf('2') })
  const other = await at.artifacts.write(ada, { name: 'g', bytes: bytesOf('3') })
  const link = at.linkTo(artifact)
  expect(await (await at.get(link)).text()).toBe('1')
  const changed = [
    link.replace('/f?', '/g?'),
    link.replace('version=1', 'version=2'),
    link.replace('version=1&', ''),
    link.replace(/exp=(\d)/, 'exp=9$1'),
    link.replace(/sig=.*/, 'sig='),
    link.replace(/sig=./, (sig) => (sig === 'sig=A' ? 'sig=B' : 'sig=A')),
    link.replace(artifact.scope, newScopeId()),
    at.linkTo({ ...other, scope: newScopeId() }),
    link.split('?')[0] ?? '',
    `${baseUrl}/${artifact.scope}`,
    `${baseUrl}/${artifact.scope}/..%2f..`,
  ]
  for (const url of changed) expect(await at.get(url)).toMatchObject({ status: 404 })
  at.pass(900_000)
  expect((await at.get(link)).status).toBe(404)
})

test('stores an upload as a file of the caller, and answers with its URI', async () => {
  await using at = open()
  const response = await at.put('a%2Fb%20c.txt?x=1', 'hello', ada)
  expect(response.status).toBe(201)
  const sha256 = createHash('sha256').update('hello').digest('hex')
  const { uri, ...rest } = (await response.json()) as { uri: string }
  expect(rest).toEqual({ version: 1, size: 5, sha256 })
  const { artifact, bytes } = await at.artifacts.read(ada, uri)
  expect(artifact).toMatchObject({ name: 'a/b c.txt', mimeType: 'text/plain;charset=UTF-8' })
  expect(Buffer.from(bytes ?? []).toString()).toBe('hello')
  await expect(at.artifacts.read(bob, uri)).rejects.toMatchObject({ code: 'NOT_FOUND' })
  expect((await at.put('empty', null, ada)).status).toBe(201)
})

test.each([
  { name: 'a.png', type: 'application/x-www-form-urlencoded', data: PNG, expected: 'image/png' },
  { name: 'a.csv', type: 'application/x-www-form-urlencoded', data: 'a,b', expected: 'text/csv' },
  { name: 'a.png', type: 'image/jpeg', data: PNG, expected: 'image/jpeg' },
  { name: 'a', data: 'hello', expected: 'text/plain' },
  { name: 'a', data: Buffer.from([0]), expected: 'application/octet-stream' },
  { name: 'a.json', type: 'application/json', data: '{}', expected: 'application/json' },
])('gives an upload named $name with type $type the type $expected', async (file) => {
  const { name, type, data, expected } = file
  await using at = open()
  const headers = type === undefined ? {} : { 'content-type': type }
  const body = new Blob([data]).stream()
  const init: RequestInit & { duplex: 'half' } = { method: 'PUT', body, headers, duplex: 'half' }
  const response = await at.routes.serve(new Request(`${baseUrl}/${name}`, init), ada)
  const { uri } = (await response.json()) as { uri: string }
  expect(await at.artifacts.find(ada, uri)).toMatchObject({ mimeType: expected })
})

test('refuses a file that is too large, over the quota or cut off, and keeps no part of it', async () => {
  await using at = open()
  const endless = new ReadableStream({ pull: (to) => to.enqueue(new Uint8Array(300)) })
  expect((await at.put('f', endless, ada)).status).toBe(413)
  const declared = new Request(`${baseUrl}/f`, {
    method: 'PUT',
    body: 'x',
    headers: { 'content-length': '1001' },
  })
  expect((await at.routes.serve(declared, ada)).status).toBe(413)
  expect((await at.put('f', 'x'.repeat(1000), ada)).status).toBe(201)
  expect((await at.put('g', 'x'.repeat(600), ada)).status).toBe(507)
  const broken = new ReadableStream({
    pull: (to) => to.error(new Error('the connection was reset')),
  })
  expect((await at.put('g', broken, ada)).status).toBe(400)
  expect((await at.put('a/b', 'x', ada)).status).toBe(400)
  expect((await at.artifacts.list(ada)).artifacts.map(({ name }) => name)).toEqual(['f'])
})

test('leaves other paths to other routes, and refuses other methods', async () => {
  await using at = open()
  expect(['/other', '/artifactsx/a/b', '/artifacts'].some((path) => at.routes.matches(path))).toBe(
    false,
  )
  for (const method of ['HEAD', 'POST', 'DELETE']) {
    const refused = await at.routes.serve(new Request(`${baseUrl}/a`, { method }), ada)
    expect([refused.status, refused.headers.get('allow')]).toEqual([405, 'GET, PUT'])
  }
})

/** A file that makes one piece at a time, when it is read. */
function pieces(count: number): {
  readonly source: AsyncIterable<Uint8Array>
  readonly state: { pulled: number; isClosed: boolean }
} {
  const state = { pulled: 0, isClosed: false }
  const iterator: AsyncIterator<Uint8Array> = {
    next: async () => {
      const done = state.pulled++ === count
      return done ? { done, value: undefined } : { done, value: new Uint8Array(10) }
    },
    return: async () => {
      state.isClosed = true
      return { done: true, value: undefined }
    },
  }
  return { source: { [Symbol.asyncIterator]: () => iterator }, state }
}

const never = new AbortController().signal

test('closes the file when the client cancels, and reports the bytes that the client took', async () => {
  const ends: BodyEnd[] = []
  const { source, state } = pieces(3)
  const reader = countedBody(source, never, (end) => ends.push(end)).getReader()
  for (const _ of [1, 2]) await reader.read()
  await reader.cancel()
  expect(ends).toEqual([{ bytes: 20, isComplete: false }])
  expect(state).toEqual({ pulled: 2, isClosed: true })
})

test('reports a download as incomplete when its request is aborted', () => {
  const ends: BodyEnd[] = []
  const { source, state } = pieces(3)
  const leaving = new AbortController()
  countedBody(source, leaving.signal, (end) => ends.push(end))
  leaving.abort()
  leaving.abort()
  expect(ends).toEqual([{ bytes: 0, isComplete: false }])
  expect(state.isClosed).toBe(true)
  countedBody(pieces(1).source, leaving.signal, (end) => ends.push(end))
  expect(ends).toHaveLength(2)
})

test('reports a download as incomplete when the file cannot be read, and passes the error on', async () => {
  const ends: BodyEnd[] = []
  const broken: AsyncIterable<Uint8Array> = {
    [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(new Error('the disk is gone')) }),
  }
  const body = countedBody(broken, never, (end) => ends.push(end))
  await expect(new Response(body).text()).rejects.toThrow('the disk is gone')
  expect(ends).toEqual([{ bytes: 0, isComplete: false }])
})

test('reports an empty file as complete', async () => {
  const ends: BodyEnd[] = []
  await new Response(countedBody(pieces(0).source, never, (end) => ends.push(end))).text()
  expect(ends).toEqual([{ bytes: 0, isComplete: true }])
})
