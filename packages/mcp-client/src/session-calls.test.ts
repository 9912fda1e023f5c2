import { McpError } from '@modelcontextprotocol/sdk/types.js'
import { expect, test } from 'vitest'
import { McpClientError } from './errors.ts'
import { McpSession } from './mcp-session.ts'
import type { ServerConnection } from './requests.ts'
import { SessionCalls } from './session-calls.ts'
import type { Caller, TrackedCall } from './session-calls.ts'

const ada: Caller = { owner: 'ada' }
const bob: Caller = { owner: 'bob' }

function sessionOf(): McpSession {
  return new McpSession({ epoch: 1, sessionId: 'one', isResumed: false } as ServerConnection)
}

const given = () => ({ calls: new SessionCalls(), session: sessionOf() })

/** Starts a call, and sends it in a session. */
function sent(calls: SessionCalls, session: McpSession, caller: Caller = ada): TrackedCall {
  const call = calls.start({ method: 'tools/call', tool: 'ask', caller })
  calls.sent(call, session)
  return call
}

test('attributes a message on the response stream of a call to that call, whatever else is open', () => {
  const { calls, session } = given()
  const first = sent(calls, session)
  sent(calls, session, bob)
  expect(calls.originOf(first, session).call).toBe(first)
})

test('attributes any other message to the only open call', () => {
  const { calls, session } = given()
  calls.end(sent(calls, session))
  const open = sent(calls, session)
  const listen = calls.originOf(undefined, session)
  expect(listen.call).toBe(open)
})

test('attributes it to no call while several are open', () => {
  const { calls, session } = given()
  const both = [sent(calls, session), sent(calls, session)]
  expect(calls.originOf(undefined, session)).toMatchObject({ call: undefined, openCalls: both })
})

test.each<[string, Error]>([
  ['was aborted', new Error('enough')],
  [
    'has an unknown outcome',
    new McpClientError('OUTCOME_UNKNOWN', 'no answer', { server: 'shop', outcome: 'unknown' }),
  ],
])('attributes it to no call of another caller after one that %s', (_, error) => {
  const { calls, session } = given()
  const cancelled = sent(calls, session, bob)
  calls.failed(cancelled, error)
  calls.end(cancelled)
  const open = sent(calls, session, ada)
  const openCalls = [open, { method: 'tools/call', tool: 'ask', caller: bob }]
  expect(calls.originOf(undefined, session)).toEqual({ call: undefined, openCalls })
  calls.end(open)
  const own = sent(calls, session, bob)
  expect(calls.originOf(undefined, session)).toEqual({ call: own, openCalls: [own] })
})

test.each<[string, unknown]>([
  ['is answered with an error', new McpError(-32_000, 'no')],
  [
    'was not executed',
    new McpClientError('UNREACHABLE', 'down', { server: 'shop', outcome: 'not-executed' }),
  ],
])('attributes it to the next call after one that %s', (_, error) => {
  const { calls, session } = given()
  const failed = sent(calls, session)
  calls.failed(failed, error)
  calls.end(failed)
  const next = sent(calls, session)
  expect(calls.originOf(undefined, session).call).toBe(next)
})

test('attributes it to no call before the call is sent, because an older one may have caused it', () => {
  const { calls, session } = given()
  const call = calls.start({ method: 'tools/call', tool: 'ask', caller: ada })
  expect(calls.originOf(undefined, session).call).toBeUndefined()
  calls.sent(call, session)
  expect(calls.originOf(undefined, session).call).toBe(call)
})

test('does not consider calls of the old session in a new one', () => {
  const calls = new SessionCalls()
  const [old, replacement] = [sessionOf(), sessionOf()]
  const cancelled = sent(calls, old)
  calls.failed(cancelled, new Error('enough'))
  calls.end(cancelled)
  const next = sent(calls, replacement, bob)
  expect(calls.originOf(undefined, replacement).call).toBe(next)
  expect(calls.originOf(undefined, old).call).toBeUndefined()
})

test('attributes it to no call while a lost session is replaced', () => {
  const calls = new SessionCalls()
  sent(calls, sessionOf())
  expect(calls.originOf(undefined, undefined).call).toBeUndefined()
})
