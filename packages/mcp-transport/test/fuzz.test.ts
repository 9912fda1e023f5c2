// Valid and invalid responses of servers. FUZZ_RUNS sets their number; the seed is always the same.
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { eventReader } from '../src/http/answer-reader.ts'
import { StreamableHttpTransport, TransportError } from '../src/index.ts'
import type { JsonRpcMessage } from '../src/index.ts'
import { FeedingDispatcher } from './feeding-dispatcher.ts'
import type { Asked, Feed } from './feeding-dispatcher.ts'

const numRuns = Number(process.env['FUZZ_RUNS'] ?? 2000)
const options = { seed: 20_260_728, numRuns }
const limits = { responseBytes: 4096, eventBytes: 2048, errorTextBytes: 64 }
const patience = { timeout: Math.max(300_000, numRuns * 20) }

/** A place in `length`, as a fraction of it. */
const share = fc.double({ min: 0, max: 1, noNaN: true })
const at = (part: number, length: number): number => Math.floor(part * length)

function split(bytes: Buffer, parts: readonly number[]): Buffer[] {
  const cuts = parts.map((part) => at(part, bytes.length)).toSorted((a, b) => a - b)
  return [0, ...cuts].map((from, index) => bytes.subarray(from, cuts[index]))
}

const lineEnd = fc.constantFrom('\n', '\r', '\r\n', '\n\n', '\r\n\r\n', '\r\r')
const field = fc.constantFrom(
  'data',
  'data:',
  'data: ',
  'id: ',
  'id',
  'event: ',
  'retry: ',
  ':',
  '',
  'x: ',
)
const value = fc.oneof(
  fc.constantFrom(
    '{"a":1}',
    'message',
    'ping',
    '250',
    '\u0000',
    'é',
    '\u2028',
    '🦀',
    '\uFEFF',
    ':',
  ),
  fc.string({ unit: 'binary', maxLength: 8 }),
)
const line = fc.tuple(field, value, lineEnd).map((parts) => parts.join(''))
const stream = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.array(line, { maxLength: 20 }).map((lines) => Buffer.from(lines.join(''))),
  },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 100 }).map((bytes) => Buffer.from(bytes)) },
)

function readAll(chunks: readonly Buffer[]): unknown[] {
  const events: unknown[] = []
  const handlers = {
    cursor: (id: string) => events.push(['id', id]),
    retry: (ms: number) => events.push(['retry', ms]),
  }
  const feed = eventReader((text) => events.push(['data', text]) > 0, handlers, limits.eventBytes)
  for (const chunk of chunks) feed(chunk)
  return events
}

test('reads the same events from every split of a byte stream', patience, () => {
  const splits = fc.array(share, { maxLength: 12 })
  fc.assert(
    fc.property(stream, splits, (bytes, parts) => {
      expect(readAll(split(bytes, parts))).toEqual(readAll([bytes]))
    }),
    options,
  )
})

type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

const ID = '$id'
const ask = { method: 'elicitation/create', params: { message: 'Go on?', requestedSchema: {} } }
const schema = { type: 'object', properties: { a: { type: 'string', 'x-mcp-header': 'A' } } }

/** Valid answers of all kinds. */
const good = fc.constantFrom<Json[]>(
  { jsonrpc: '2.0', id: ID, result: { content: [{ type: 'text', text: 'ok' }] } },
  { jsonrpc: '2.0', id: ID, result: { resultType: 'complete', structuredContent: [1] } },
  { jsonrpc: '2.0', id: ID, result: { resultType: 'input_required', inputRequests: { a: ask } } },
  {
    jsonrpc: '2.0',
    id: ID,
    result: { tools: [{ name: 'a', inputSchema: schema, outputSchema: true }] },
  },
  { jsonrpc: '2.0', id: ID, error: { code: -32602, message: 'Invalid', data: { why: 'because' } } },
  { jsonrpc: '2.0', id: null, error: { code: -32000, message: 'Session not found' } },
  { jsonrpc: '2.0', id: ID, error: { code: -32020, message: 'Header mismatch' } },
  { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: 1, progress: 1 } },
  { jsonrpc: '2.0', id: 1, method: 'roots/list' },
  { error: 'Session not found' },
)

const odd = fc.oneof(
  fc.constantFrom<Json[]>(
    null,
    true,
    0,
    -0,
    1e308,
    '',
    ID,
    'session expired',
    [],
    {},
    '2.0',
    'complete',
  ),
  fc.integer({ min: 0, max: 5000 }).map((length) => 'x'.repeat(length)),
  fc.integer({ min: 1, max: 1500 }).map(nested),
)

function nested(depth: number): Json {
  let json: Json = []
  for (let level = 0; level < depth; level++) json = [json]
  return json
}

/** Replaces one part of an answer with an invalid value, or removes it. */
const change = fc.record({
  where: fc.array(share, { minLength: 1, maxLength: 5 }),
  put: fc.option(odd),
})

function changed(json: Json, { where, put }: { where: number[]; put: Json }): Json {
  const [first = 0, ...rest] = where
  if (typeof json !== 'object' || json === null || Object.keys(json).length === 0) return put
  const keys = Object.keys(json)
  const key = keys[Math.min(at(first, keys.length), keys.length - 1)] ?? ''
  const part = (json as Record<string, Json>)[key] ?? null
  const next = rest.length === 0 ? put : changed(part, { where: rest, put })
  if (Array.isArray(json)) return json.map((one, index) => (String(index) === key ? next : one))
  const { [key]: _gone, ...others } = json
  return next === null && rest.length === 0 ? others : { ...others, [key]: next }
}

const answers = fc.array(
  fc
    .tuple(good, fc.oneof(fc.constant([]), fc.array(change, { maxLength: 2 })))
    .map(([json, changes]) => changes.reduce<Json>(changed, json)),
  { minLength: 1, maxLength: 3 },
)

/** Change of the bytes of an answer. */
const damage = rarely(
  fc.record({ from: share, length: fc.nat(20), bytes: fc.uint8Array({ maxLength: 8 }) }),
)

function rarely<T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> {
  return fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary })
}

const head = fc.record({
  status: fc.oneof(
    { weight: 12, arbitrary: fc.constant(200) },
    {
      weight: 4,
      arbitrary: fc.constantFrom(201, 202, 204, 302, 400, 401, 403, 404, 409, 410, 429, 500, 503),
    },
  ),
  type: fc.constantFrom(
    'application/json',
    'application/json',
    'application/json; charset=utf-8',
    'text/event-stream',
    'text/event-stream',
    'text/event-stream',
    'text/html',
    '',
  ),
  header: rarely(
    fc.constantFrom(
      ['content-encoding', 'gzip'],
      ['location', '/elsewhere'],
      ['retry-after', 'soon'],
      ['mcp-session-id', 'stolen'],
      ['www-authenticate', 'Bearer realm="'],
    ),
  ),
})

const response = fc.record({
  answers,
  damage,
  head,
  frame: fc.constantFrom(
    '',
    'id: e1\n',
    'retry: 0\n',
    'event: message\n',
    'event: ping\n',
    ': comment\n\n',
    'id\n',
  ),
  parts: fc.array(share, { maxLength: 4 }),
  end: fc.constantFrom<Feed['end'][]>('complete', 'complete', 'complete', 'broken'),
})

type Response = typeof response extends fc.Arbitrary<infer R> ? R : never

function feedOf(
  { answers: all, damage: harm, head: { status, type, header }, frame, parts, end }: Response,
  id: unknown,
): Feed {
  const texts = all.map((json) =>
    JSON.stringify(json).replaceAll(`"${ID}"`, JSON.stringify(id) ?? 'null'),
  )
  const text =
    type === 'text/event-stream'
      ? texts.map((one) => `${frame}data: ${one}\n\n`).join('')
      : texts.length === 1
        ? (texts[0] ?? '')
        : `[${texts.join(',')}]`
  const whole = Buffer.from(text)
  const from = harm === null ? 0 : at(harm.from, whole.length)
  const bytes =
    harm === null
      ? whole
      : Buffer.concat([whole.subarray(0, from), harm.bytes, whole.subarray(from + harm.length)])
  return {
    status,
    headers: {
      ...(type === '' ? {} : { 'content-type': type }),
      ...(header && { [header[0] ?? '']: header[1] ?? '' }),
    },
    chunks: split(bytes, parts),
    end,
  }
}

interface ReadEvent {
  readonly messages: readonly JsonRpcMessage[]
  /** Number of messages that are answers to the request. */
  readonly answered: number
}

/** A client, its dispatcher, and the messages that it got. */
class Asker {
  readonly #era: 'legacy' | 'modern'
  readonly #messages: JsonRpcMessage[] = []
  #transport: StreamableHttpTransport | undefined
  #response: Response | undefined
  #answered = 0
  #lastId = 0

  constructor(era: 'legacy' | 'modern') {
    this.#era = era
  }

  /** Returns the messages to the client for one request, within a time limit. */
  async ask(method: string, given: Response): Promise<ReadEvent> {
    const transport = (this.#transport ??= await this.#connect())
    this.#response = given
    this.#answered = 0
    this.#messages.length = 0
    const id = ++this.#lastId
    await transport.send({
      jsonrpc: '2.0',
      id,
      method,
      params: { name: 'a', _meta: { progressToken: 1 } },
    })
    for (let turn = 0; turn < 100 && !this.#hasAnswer(id); turn++) await nextTurn()
    await nextTurn() // a second answer would arrive now
    const messages = [...this.#messages]
    const answered = messages.filter((one) => !('method' in one) && one.id === id).length
    // After a lost session, the next request needs another handshake.
    if (this.#era === 'legacy' && transport.sessionId === undefined) await this.close()
    return { messages, answered }
  }

  async close(): Promise<void> {
    await this.#transport?.close()
    this.#transport = undefined
  }

  #hasAnswer(id: number): boolean {
    return this.#messages.some((one) => !('method' in one) && one.id === id)
  }

  async #connect(): Promise<StreamableHttpTransport> {
    const transport = new StreamableHttpTransport('http://server.test/mcp', {
      dispatcher: new FeedingDispatcher((asked) => this.#feed(asked)),
      era: this.#era,
      listen: false,
      limits,
      reconnect: { maxAttempts: 0 },
    })
    transport.onmessage = (message) => {
      this.#messages.push(message)
      if (!('method' in message) || !('id' in message)) return
      // A reply in the legacy era is a separate POST, which may be refused.
      transport
        .send({ jsonrpc: '2.0', id: message.id, result: { action: 'decline' } })
        .catch(() => {})
    }
    const capabilities = { elicitation: {} }
    const params = {
      protocolVersion: '2025-11-25',
      capabilities,
      clientInfo: { name: 'a', version: '1' },
    }
    await transport.send({ jsonrpc: '2.0', id: 0, method: 'initialize', params })
    while (this.#messages.length === 0) await nextTurn()
    return transport
  }

  #feed({ httpMethod, message: { id, method } }: Asked): Feed {
    if (httpMethod !== 'POST') return plain(405)
    if (method === 'initialize') return plain(200, id, initialized)
    if (method === 'server/discover') return plain(200, id, discovered)
    if (id === undefined || method === undefined) return plain(202)
    this.#answered += 1
    // Later rounds and requests succeed, so that only the first answer matters.
    if (this.#response === undefined || this.#answered > 3)
      return plain(200, id, { content: [], tools: [] })
    return feedOf(this.#response, id)
  }
}

const initialized = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  serverInfo: { name: 'a', version: '1' },
}
const discovered = { supportedVersions: ['2026-07-28'], capabilities: {} }

function plain(status: number, id?: unknown, result?: object): Feed {
  const headers = { 'content-type': 'application/json', 'mcp-session-id': 'session-1' }
  const chunks =
    result === undefined ? [] : [Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, result }))]
  return { status, headers, chunks, end: 'complete' }
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

function isWithinLimits(message: JsonRpcMessage): boolean {
  const data = 'error' in message ? message.error.data : undefined
  if (TransportError.is(data)) {
    const isCut = Buffer.byteLength(data.bodyText ?? '') < limits.errorTextBytes + 20
    return isCut && data.message.length < 600
  }
  // Twice the limit: a value may be longer as JSON than in the bytes, such as the number 1E300.
  return JSON.stringify(message).length < 2 * limits.responseBytes
}

test.each(['legacy', 'modern'] as const)(
  'delivers exactly one answer for any response to a request: %s',
  patience,
  async (era) => {
    const asker = new Asker(era)
    const method = fc.constantFrom('tools/call', 'tools/list', 'resources/read')
    await fc.assert(
      fc.asyncProperty(method, response, async (name, given) => {
        const { messages, answered } = await asker.ask(name, given)
        expect(answered).toBe(1)
        expect(messages.filter((one) => !isWithinLimits(one))).toEqual([])
      }),
      options,
    )
    await asker.close()
  },
)
