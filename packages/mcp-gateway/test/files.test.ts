import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { deferred } from '@x/mcp-testing'
import { afterAll, describe, expect, test } from 'vitest'

import type { AgentUpdate } from '../src/agents/agent.ts'
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'
import { MemoryGatewayStore } from '../src/store/memory-store.ts'
import type { Behaviour } from './agents-at-hand.ts'
import { connectForFiles, FILE_CLIENTS } from './file-clients.ts'
import { ManualClock } from './manual-clock.ts'
import {
  TOKENS,
  image,
  giving,
  serve,
  twoPeople,
  uriOf,
  textOf,
  refusalOf,
  textFile,
  reader,
} from './served-files.ts'

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

describe.each(WAYS)('a client ($kind) of a gateway with its store in $store', ({ kind, store }) => {
  test('gets text first, then each file: inline up to the limit, above it as a link', async () => {
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

  test('gets two versions for one name, and sees equal bytes once', async () => {
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

  test('is notified of a new version of a file that it follows', async () => {
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

  test('finds no file of another caller, with any request', async () => {
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

  test('uploads a file, and gives it to an agent by its URI', async () => {
    await using at = await serve({ reader }, { store: STORES[store](), auth: twoPeople() })
    await using client = await connectForFiles(kind, at.url, { token: TOKENS.ada })
    const answer = await fetch(`${at.files}/data.csv`, {
      method: 'PUT',
      headers: { 'content-type': 'text/csv', authorization: `Bearer ${TOKENS.ada}` },
      body: 'a,b\n1,2\n',
    })
    expect(answer.status).toBe(201)
    const { uri } = (await answer.json()) as { uri: string }
    const result = await client.call('reader', { message: 'Read', files: [uri] })
    expect(textOf(result)).toBe('data.csv (text/csv, 8): a,b\n1,2\n')
  })

  test('downloads a file that is too large to be read by a signed link, which expires', async () => {
    const clock = new ManualClock()
    const large = textFile('large.json', JSON.stringify({ text: 'x'.repeat(5000) }))
    await using at = await serve(
      { give: giving(large) },
      { store: STORES[store](), auth: twoPeople(), clock },
      { readMaxBytes: 1000 },
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
    expect(
      (await fetch(url.replace(/sig=./, (start) => (start === 'sig=A' ? 'sig=B' : 'sig=A'))))
        .status,
    ).toBe(404)
    await clock.advance(900_000)
    expect((await fetch(url)).status).toBe(404)
  })

  test('is limited by its quota, and loses files when they expire', async () => {
    const clock = new ManualClock()
    const files = ['a', 'b', 'c'].map((name) => textFile(`${name}.txt`, name))
    await using at = await serve(
      { give: giving(...files) },
      {
        store: STORES[store](),
        auth: twoPeople(),
        clock,
        artifacts: { quota: 2, ttlMs: 60_000 },
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
})

test('gives a run a reason of its own if its agent cannot store a file', async () => {
  const keep: Behaviour = async function* keepIt({ artifacts }): AsyncIterable<AgentUpdate> {
    await artifacts.write({ name: 'large.bin', data: new Uint8Array(100) })
    yield { type: 'done', text: 'Kept' }
  }
  await using at = await serve({ keep }, { artifacts: { quota: 99 } })
  await using client = await connectForFiles('v1', at.url)
  const answer = await client.call('keep', { message: 'Go' })
  expect(answer).toMatchObject({ isError: true, _meta: { reason: 'no_room' } })
  expect(textOf(answer)).toContain('99')
})

describe('a gateway that does not store files', () => {
  const artifacts = { enabled: false, maxBytes: 3000 }

  test.each(FILE_CLIENTS)(
    'shows the files that fit into a result, and names the others: %s',
    async (kind) => {
      const files = [
        { name: 'fits.png', data: image(1000) },
        { name: 'notes.md', data: Buffer.from('# Notes') },
        { name: 'notes.md', data: Buffer.from('# Notes') },
        { name: 'large.png', data: image(1001) },
        { name: 'endless.bin', data: new Uint8Array(3001) },
      ]
      const options = { artifacts, inline: { imageMaxBytes: 1000 } }
      await using at = await serve({ give: giving(...files) }, options)
      await using client = await connectForFiles(kind, at.url)
      const { content } = await client.call('give', { message: 'Go' })
      expect(content).toMatchObject([
        { type: 'text', text: 'Here they are' },
        { type: 'image', mimeType: 'image/png' },
        { type: 'resource', resource: { uri: 'inline:///notes.md?version=1', text: '# Notes' } },
        { type: 'text', text: expect.stringContaining('The result has no room for its 1001') },
        {
          type: 'text',
          text: expect.stringContaining('more than the 3000 bytes that are allowed'),
        },
      ])
      expect(content[1]?.['_meta']).toBeUndefined() // the file cannot be read by a URI
    },
  )
})
