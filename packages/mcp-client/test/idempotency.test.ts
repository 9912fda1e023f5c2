// Idempotency keys: after an unknown outcome, a call with a key is sent again if the server runs equal keys once.
import { startRecordingProxy, startTaskServer } from '@x/mcp-testing'
import type { CannedAnswer, InjectedAction, RecordingProxy } from '@x/mcp-testing'
import { SessionInfo } from '@x/mcp-transport'
import { expect, test } from 'vitest'
import { retentionOf } from '../src/idempotency.ts'
import { McpClient } from '../src/index.ts'
import type { McpClientError } from '../src/index.ts'
import type { ServerConnection } from '../src/requests.ts'
import { startSessionServer } from './session-server.ts'
import { is, rejectionOf, textOf } from './setting.ts'

const KEY = 'io.github.x-mcp/idempotency-key'
const idempotencyKey = 'thread-1:call-7'
const retryTiming = { wait: () => Promise.resolve(), random: () => 0 }
/** The call runs, and its answer is lost. */
const lostAnswer = 'reset-after'
const replaced = (answer: CannedAnswer): InjectedAction => ({
  type: 'answer',
  answer,
  when: 'after-execution',
})

function inject(proxy: RecordingProxy, action: InjectedAction, times = 1): void {
  proxy.inject({ match: ({ toolName }) => toolName !== undefined, times, action })
}

test.each<[string, InjectedAction]>([
  ['a reset connection', lostAnswer],
  ['half an answer', { type: 'break-answer', how: 'close', after: 20 }],
  ['status 502 of a proxy', replaced({ status: 502, body: 'Bad Gateway' })],
  ['status 500 of a proxy', replaced({ status: 500, body: '' })],
])('a call with a key returns its one result after %s', async (_what, fault) => {
  await using server = await startTaskServer({ honoursKeys: true })
  await using proxy = await startRecordingProxy(server.url)
  await using client = new McpClient({ url: proxy.url }, { retryTiming })
  inject(proxy, fault)
  const result = await client.callTool('greet', { name: 'Ada' }, { idempotencyKey })
  expect(textOf(result)).toBe('Hello, Ada!')
  expect(server.runs).toEqual(['greet'])
  const keys = server.received
    .filter(is.method('tools/call'))
    .map(({ params }) => params?.['_meta'])
  expect(keys).toMatchObject([{ [KEY]: idempotencyKey }, { [KEY]: idempotencyKey }])
})

test('a call that became a task joins the task with its key', async () => {
  await using server = await startTaskServer({ honoursKeys: true })
  await using proxy = await startRecordingProxy(server.url)
  await using client = new McpClient({ url: proxy.url }, { retryTiming })
  inject(proxy, lostAnswer)
  const { task } = await client.startTool('slow_compute', {}, { idempotencyKey })
  expect(task?.reference).toMatchObject({ taskId: server.lastTask.taskId, idempotencyKey })
  expect(server.runs).toEqual(['slow_compute'])
})

test.each([
  { why: 'the server does not honour keys', honoursKeys: false, call: { idempotencyKey } },
  { why: 'there is no key', honoursKeys: true, call: {} },
  { why: "the policy is 'never'", options: { replay: 'never' } as const },
  { why: 'no retry is allowed', options: { maxRetries: 0 } },
])('a call is not sent again if $why', async ({ honoursKeys = true, call, options }) => {
  await using server = await startTaskServer({ honoursKeys })
  await using proxy = await startRecordingProxy(server.url)
  await using client = new McpClient({ url: proxy.url }, { retryTiming, ...options })
  inject(proxy, lostAnswer)
  const error = await rejectionOf(client.callTool('greet', {}, call ?? { idempotencyKey }))
  expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
  expect(server.count('tools/call')).toBe(1)
})

test.each([0, -1, '86400000', null, undefined])(
  'a server that keeps keys for %j ms does not honour them',
  (retentionMs) => {
    const extensions = { 'io.github.x-mcp/idempotency': { retentionMs } }
    const connection = { endpoint: 'http://h', serverCapabilities: { extensions } }
    expect(retentionOf(connection as unknown as ServerConnection)).toBeUndefined()
  },
)

test('a call that another process has sent goes to a server that honours keys', async () => {
  await using server = await startTaskServer({ honoursKeys: true })
  await using client = new McpClient({ url: server.url })
  const call = { idempotencyKey, sentAt: Date.now() - 1000 }
  expect(textOf(await client.callTool('greet', { name: 'Ada' }, call))).toBe('Hello, Ada!')
})

test.each([
  ['does not keep the key so long', true, 86_400_001],
  ['may not keep the key so long, because the clock was set back', true, -86_400_001 - 60_000],
  ['does not honour keys', false, 1000],
])('a call that another process has sent is not sent to a server that %s', async (...row) => {
  const [, honoursKeys, agoMs] = row
  await using server = await startTaskServer({ honoursKeys })
  await using client = new McpClient({ url: server.url }, { retryTiming })
  const call = { idempotencyKey, sentAt: Date.now() - agoMs }
  const error = await rejectionOf(client.callTool('greet', { name: 'Ada' }, call))
  expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown', tool: 'greet' })
  expect(server.count('tools/call')).toBe(0)
})

test.each([
  ['resets connections', 'reset-before' as const],
  ['answers with status 503', { status: 503, body: '' }],
])('a call that another process has sent waits for a server that %s', async (_what, action) => {
  await using server = await startTaskServer({ honoursKeys: true })
  await using proxy = await startRecordingProxy(server.url)
  proxy.inject({ match: () => true, times: 5, action })
  await using client = new McpClient({ url: proxy.url }, { retryTiming })
  const call = { idempotencyKey, sentAt: Date.now() - 1000 }
  expect(textOf(await client.callTool('greet', { name: 'Ada' }, call))).toBe('Hello, Ada!')
  expect(server.runs).toEqual(['greet'])
})

test.each<[string, InjectedAction]>([
  ['a reset connection', lostAnswer],
  ['status 502 of a proxy', replaced({ status: 502, body: 'Bad Gateway' })],
])('a call is not sent again if the server stopped honouring keys before %s', async (...row) => {
  const [, fault] = row
  await using server = await startTaskServer({ honoursKeys: true })
  await using proxy = await startRecordingProxy(server.url)
  await using client = new McpClient({ url: proxy.url }, { retryTiming })
  await client.callTool('greet', { name: 'Ada' })
  inject(proxy, fault)
  server.honoursKeys = false
  const error = await rejectionOf(client.callTool('slow_compute', {}, { idempotencyKey }))
  expect(error).toMatchObject({ outcome: 'unknown' })
  expect(server.runs).toEqual(['greet', 'slow_compute'])
})

test('a call of another process is not sent if the server stopped honouring keys since', async () => {
  await using server = await startTaskServer({ honoursKeys: true })
  const sessionInfo = new SessionInfo()
  const options = { sessionInfoFactory: { createSession: () => sessionInfo, durable: true } }
  await using first = new McpClient({ url: server.url }, options)
  await first.listTools()
  server.honoursKeys = false
  await using second = new McpClient({ url: server.url }, options)
  const call = { idempotencyKey, sentAt: Date.now() - 1000 }
  const error = await rejectionOf(second.callTool('greet', { name: 'Ada' }, call))
  expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
  expect(server.runs).toEqual([])
})

test('sentAt without a key is refused before a request', async () => {
  await using client = new McpClient({ url: 'http://127.0.0.1:1/mcp' })
  const error = await rejectionOf(client.callTool('pay', {}, { sentAt: Date.now() }))
  expect(error).toMatchObject({ code: 'CONFIG', outcome: 'not-executed' })
})

test.each([
  { maxRetries: 3, sent: 4 },
  { maxRetries: 8, sent: 9 },
])('a call is sent again at most $maxRetries times', async ({ maxRetries, sent }) => {
  await using server = await startTaskServer({ honoursKeys: true })
  await using proxy = await startRecordingProxy(server.url)
  await using client = new McpClient({ url: proxy.url }, { retryTiming, maxRetries })
  inject(proxy, lostAnswer, 10)
  const error = await rejectionOf(client.callTool('greet', {}, { idempotencyKey }))
  expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN', outcome: 'unknown' })
  expect(server.count('tools/call')).toBe(sent)
  expect(server.runs).toEqual(['greet'])
})

test('the error for a key with other arguments reaches the caller', async () => {
  await using server = await startTaskServer({ honoursKeys: true })
  await using client = new McpClient({ url: server.url })
  await client.callTool('greet', { name: 'Ada' }, { idempotencyKey })
  const error = await rejectionOf(client.callTool('greet', { name: 'Eve' }, { idempotencyKey }))
  expect(error).toMatchObject({ code: -32602, data: { reason: 'idempotency_conflict' } })
})

test.each(['', 'a b', 'ü', 'x'.repeat(256)])(
  'the key %j is refused before a request',
  async (key) => {
    await using client = new McpClient({ url: 'http://127.0.0.1:1/mcp' })
    const error = await rejectionOf(client.callTool('pay', {}, { idempotencyKey: key }))
    expect(error).toMatchObject({ code: 'CONFIG', outcome: 'not-executed' })
  },
)

test.each([
  { isSame: true, end: 'paid', calls: [1, 1] },
  { isSame: false, end: 'OUTCOME_UNKNOWN', calls: [1, 0] },
])('a server that takes over gets the call only if it honours keys: $isSame', async (row) => {
  const { isSame, end, calls } = row
  const first = await startSessionServer(true)
  const second = await startSessionServer(isSame)
  let target = first.url
  await using proxy = await startRecordingProxy(() => target)
  await using client = new McpClient({ url: proxy.url }, { retryTiming, maxRetries: 2 })
  await client.ping()
  first.breakNext(() => {
    target = second.url
  })
  const call = client.callTool('pay', {}, { idempotencyKey })
  expect(await call.then(textOf, (error: McpClientError) => error.code)).toBe(end)
  expect([first.calls(), second.calls()]).toEqual(calls)
  await first[Symbol.asyncDispose]()
  await second[Symbol.asyncDispose]()
})
