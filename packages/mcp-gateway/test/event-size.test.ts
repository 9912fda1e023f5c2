import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import type { Gateway } from '../src/gateway.ts'
import { createGateway } from '../src/gateway.ts'
import type { GatewayOptions } from '../src/options.ts'
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'
import { JSON_HEADERS, modernParts } from './rpc-requests.ts'
import { WireSession } from './wire-session.ts'

const MIB = 1_048_576

/** A graph that answers with this state. */
function graphOf(state: object) {
  return {
    channels: { messages: {} },
    async stream() {
      return (async function* () {
        yield [[], 'values', state]
      })()
    },
  }
}

function saying(...blocks: readonly object[]) {
  return graphOf({ messages: [{ type: 'ai', content: blocks }] })
}

function image(size: number, name: string): object {
  const data = randomBytes(size).toString('base64')
  return { type: 'image', mimeType: 'image/png', data, metadata: { filename: name } }
}

function text(value: string): object {
  return { type: 'text', text: value }
}

const SEVERAL = ['a.png', 'b.png', 'c.png', 'd.png']
const LONG = 'All is well. '.repeat((12 * MIB) / 13)

const AGENTS = {
  image: saying(image(900 * 1024, 'a.png')),
  images: saying(text('Look'), ...SEVERAL.map((name) => image(300 * 1024, name))),
  // As JSON, each of these characters has two, six and three bytes.
  quotes: saying(text('"\n'.repeat(MIB / 2))),
  controls: saying(text('\u0001'.repeat(MIB / 4))),
  letters: saying(text('字'.repeat(MIB / 2))),
  emoji: saying(text('😀'.repeat(MIB / 2))),
  long: saying(text(LONG)),
  mixed: saying(text('x'.repeat(MIB)), image(200 * 1024, 'a.png')),
  many: saying(
    ...Array.from({ length: 40 }, (_, index) => image(64 * 1024, `${'long'.repeat(40)}-${index}`)),
  ),
  structure: graphOf({ rows: Array.from({ length: 40_000 }, (_, row) => ({ row, name: '"' })) }),
}

const agents = Object.fromEntries(
  Object.entries(AGENTS).map(([name, graph]) => [name, { graph, description: name }]),
) as NonNullable<GatewayOptions['agents']>

interface Block {
  readonly type: string
  readonly text?: string
  readonly uri?: string
  readonly name?: string
}

interface Result {
  readonly content: readonly Block[]
  readonly structuredContent?: unknown
  readonly isError?: boolean
  readonly _meta: { readonly isTruncated?: boolean }
}

interface Sent {
  /** Of each event, and of the whole answer if it is no stream: bytes. */
  readonly sizes: readonly number[]
  readonly isStream: boolean
  readonly result: Result
}

async function sentBy(response: Response): Promise<Sent> {
  const body = await response.text()
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') === true
  const events = isStream ? body.split('\n\n').filter((each) => each !== '') : [body]
  const data = events.map((event) => (isStream ? event.slice(event.indexOf('data: ') + 6) : event))
  const messages = data.flatMap((each) => (each.startsWith('{') ? [JSON.parse(each)] : []))
  const { result, error } = messages.at(-1)
  if (error !== undefined) throw new Error(JSON.stringify(error))
  return { sizes: events.map((event) => Buffer.byteLength(event)), isStream, result }
}

type Ask = (method: string, params: Readonly<Record<string, unknown>>) => Promise<Sent>

async function legacy(url: string): Promise<Ask> {
  const session = await WireSession.open(url)
  return async (method, params) =>
    sentBy(await session.post(url, { jsonrpc: '2.0', id: 1, method, params }))
}

function modern(url: string): Ask {
  return async (method, params) => {
    const { message, headers } = modernParts(method, params)
    const init = { method: 'POST', headers: { ...JSON_HEADERS, ...headers } }
    return sentBy(await fetch(url, { ...init, body: JSON.stringify(message) }))
  }
}

/** With progress, so that the answer is an event of a stream. */
function callOf(name: string) {
  return { name, arguments: { message: 'Hi' }, _meta: { progressToken: 1 } }
}

let gateway: Gateway
let url: string

let store: DiskGatewayStore
let dir: string

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'event-size-'))
  store = new DiskGatewayStore(dir)
  gateway = createGateway({ agents, store })
  url = (await gateway.listen({ port: 0 })).url
})

afterAll(async () => {
  await gateway.close()
  await store.close()
  await rm(dir, { recursive: true })
})

describe.each([
  ['legacy', legacy],
  ['modern', modern],
])('in the %s era', (_, connect) => {
  test.each(Object.keys(AGENTS))('sends no event of 1 MiB: %s', async (name) => {
    const ask = await connect(url)
    const { sizes, isStream, result } = await ask('tools/call', callOf(name))
    expect(isStream).toBe(true)
    expect(Math.max(...sizes)).toBeLessThan(MIB)
    expect(result.isError).not.toBe(true)
    const isCut = !['image', 'images', 'many'].includes(name)
    expect(result['_meta'].isTruncated ?? false).toBe(isCut)
  })

  test('shows images in their order as long as there is room, and links to the others', async () => {
    const ask = await connect(url)
    const { result } = await ask('tools/call', callOf('images'))
    expect(result.content.map(({ type }) => type)).toEqual([
      'text',
      'image',
      'image',
      'resource_link',
      'resource_link',
    ])
  })

  test('marks a text of 12 MiB as cut, and keeps all of it as a file', async () => {
    const ask = await connect(url)
    const { result } = await ask('tools/call', callOf('long'))
    const [shown, link] = result.content
    expect(shown?.text?.startsWith(LONG.slice(0, 400_000))).toBe(true)
    expect(shown?.text).toMatch(
      /\n\[Cut here: \d+ of \d+ characters are shown\. All of it is in the file artifact:.+\.\]$/,
    )
    expect(link).toMatchObject({ type: 'resource_link', mimeType: 'text/plain', size: LONG.length })
  })

  test('gives a file of several megabytes in one piece, and not as an event', async () => {
    const ask = await connect(url)
    const { result } = await ask('tools/call', callOf('structure'))
    expect(result.structuredContent).toBeUndefined()
    const link = result.content.find(({ type }) => type === 'resource_link')
    const read = await ask('resources/read', { uri: link?.uri })
    expect(read.isStream).toBe(false)
    expect(read.sizes[0]).toBeGreaterThan(MIB)
  })
})

test('takes another limit from its options', async () => {
  await using large = createGateway({ agents, inline: { resultMaxBytes: 2 * MIB } })
  await using small = createGateway({ agents, inline: { resultMaxBytes: 100_000 } })
  const sizes: number[] = []
  for (const each of [large, small]) {
    const ask = await legacy((await each.listen({ port: 0 })).url)
    sizes.push(Math.max(...(await ask('tools/call', callOf('mixed'))).sizes))
  }
  expect(sizes[0]).toBeGreaterThan(MIB)
  expect(sizes[1]).toBeLessThan(110_000)
})

test('marks a cut text also where no files are kept', async () => {
  await using bare = createGateway({ agents, artifacts: { quota: 0 } })
  const ask = await legacy((await bare.listen({ port: 0 })).url)
  const { result } = await ask('tools/call', callOf('long'))
  expect(result.content).toHaveLength(1)
  expect(result.content[0]?.text).toMatch(/This gateway keeps no files: the rest is lost\.\]$/)
})
