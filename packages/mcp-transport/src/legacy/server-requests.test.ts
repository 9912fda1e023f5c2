import { expect, test } from 'vitest'
import { LegacySession } from './legacy-session.ts'
import { RequestIds } from './request-ids.ts'
import { ServerRequests } from './server-requests.ts'

const first = sessionOf(1)
const second = sessionOf(2)

function sessionOf(epoch: number): LegacySession {
  return new LegacySession({
    id: `session-${epoch}`,
    epoch,
    protocolVersion: '2025-11-25',
    isResumed: false,
    ids: RequestIds.asTheyAre(),
  })
}

function ask(id: string | number) {
  return { jsonrpc: '2.0', id, method: 'roots/list' } as const
}

function reply(id?: string | number) {
  return { jsonrpc: '2.0', id: id as string, result: {} } as const
}

test('a reply goes to the session that its question came in, once', () => {
  const requests = new ServerRequests()
  requests.asked(ask(1), first)
  requests.asked(ask(2), second)
  expect(requests.take(reply(1))).toBe(first)
  expect(requests.take(reply(2))).toBe(second)
  expect(requests.take(reply(1))).toBeUndefined()
})

test('a reply to nothing that was asked goes nowhere', () => {
  const requests = new ServerRequests()
  requests.asked(ask(1), first)
  expect(requests.take(reply('1'))).toBeUndefined()
  expect(requests.take(reply())).toBeUndefined()
})

test('a question that the server has taken back needs no reply', () => {
  const requests = new ServerRequests()
  requests.asked(ask('a'), first)
  const method = 'notifications/cancelled'
  requests.cancelled({ jsonrpc: '2.0', method })
  requests.cancelled({ jsonrpc: '2.0', method, params: { requestId: 'b' } })
  requests.cancelled({ jsonrpc: '2.0', method, params: { requestId: 'a' } })
  expect(requests.take(reply('a'))).toBeUndefined()
})
