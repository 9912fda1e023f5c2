import { describe, expect, test } from 'vitest'
import type { JsonRpcRequest } from '../json-rpc.ts'
import { LegacySession, randomBlock, RequestIds, ServerRequests } from './legacy-session.ts'

describe('request ids', () => {
  const call: JsonRpcRequest = {
    jsonrpc: '2.0',
    id: 3,
    method: 'tools/call',
    params: { name: 'slow', _meta: { progressToken: 3, other: true } },
  }
  const progress = (progressToken: unknown): Parameters<RequestIds['progress']>[0] => ({
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken, progress: 1 },
  })

  describe('in a session that this transport opened', () => {
    const ids = new RequestIds(0)

    test('keeps messages of the client unchanged', () => {
      expect(ids.toWire(3)).toBe(3)
      expect(ids.fromWire('3')).toBe('3')
      expect(ids.request(call)).toBe(call)
      expect(ids.progress(progress(3))).toEqual(progress(3))
    })
  })

  describe('in a resumed session', () => {
    test('converts an id to another number and back', () => {
      const ids = new RequestIds(randomBlock(0.1))
      const wire = ids.toWire(3)
      expect(wire).toBeTypeOf('number')
      expect(wire).not.toBe(3)
      expect(ids.fromWire(wire)).toBe(3)
      expect(ids.fromWire(String(wire))).toBe(3)
    })

    test.each([0, 0.5, 0.999_999_999_999])(
      'converts every id to a safe integer (random number %d)',
      (random) => {
        const ids = new RequestIds(randomBlock(random))
        for (const id of [0, 1, 2 ** 20, 2 ** 30]) {
          const wire = ids.toWire(id)
          expect(Number.isSafeInteger(wire)).toBe(true)
          expect(ids.fromWire(wire)).toBe(id)
        }
      },
    )

    test('converts an id to different numbers in two processes', () => {
      const ours = new RequestIds(randomBlock(0.1))
      const theirs = new RequestIds(randomBlock(0.2))
      ours.toWire(100)
      expect(ours.fromWire(theirs.toWire(3))).toBeUndefined()
      expect(ours.fromWire(3)).toBeUndefined()
    })

    test('converts id and progress token, and keeps the rest', () => {
      const ids = new RequestIds(randomBlock(0.1))
      const { id, params } = ids.request(call)
      expect(id).toBe(ids.toWire(3))
      expect(params).toEqual({ name: 'slow', _meta: { progressToken: id, other: true } })
      expect(call.params?.['_meta']).toHaveProperty('progressToken', 3)
    })

    test('adds no parameters to a request without parameters', () => {
      const ids = new RequestIds(randomBlock(0.1))
      expect(ids.request({ jsonrpc: '2.0', id: 0, method: 'ping' })).not.toHaveProperty('params')
    })

    test('converts progress back, and drops progress of another process', () => {
      const ids = new RequestIds(randomBlock(0.1))
      const wire = ids.toWire(3)
      expect(ids.progress(progress(wire))).toEqual(progress(3))
      expect(ids.progress(progress(Number(wire) - 3 - 1))).toBeUndefined()
    })

    test('keeps progress tokens that are texts, and other messages', () => {
      const ids = new RequestIds(randomBlock(0.1))
      expect(ids.progress(progress('mine'))).toEqual(progress('mine'))
      const other = { jsonrpc: '2.0', method: 'notifications/message', params: {} } as const
      expect(ids.progress(other)).toBe(other)
    })
  })
})

describe('server requests', () => {
  const first = sessionOf(1)
  const second = sessionOf(2)

  function sessionOf(epoch: number): LegacySession {
    return new LegacySession({
      id: `session-${epoch}`,
      epoch,
      protocolVersion: '2025-11-25',
      isResumed: false,
    })
  }

  function ask(id: string | number) {
    return { jsonrpc: '2.0', id, method: 'roots/list' } as const
  }

  function reply(id?: string | number) {
    return { jsonrpc: '2.0', id: id as string, result: {} } as const
  }

  test('returns the session of a request once', () => {
    const requests = new ServerRequests()
    requests.asked(ask(1), first)
    requests.asked(ask(2), second)
    expect(requests.take(reply(1))).toEqual({ id: 1, session: first })
    expect(requests.take(reply(2))).toEqual({ id: 2, session: second })
    expect(requests.take(reply(1))).toBeUndefined()
  })

  test('returns no session for an unknown request', () => {
    const requests = new ServerRequests()
    requests.asked(ask(1), first)
    expect(requests.take(reply('1'))).toBeUndefined()
    expect(requests.take(reply())).toBeUndefined()
  })

  test('forgets a request that the server cancelled', () => {
    const requests = new ServerRequests()
    requests.asked(ask('a'), first)
    const method = 'notifications/cancelled'
    const cancel = (session: LegacySession, params?: { readonly requestId: string }): unknown =>
      requests.cancelled({ jsonrpc: '2.0', method, ...(params && { params }) }, session)
    expect(cancel(first)).toBeUndefined()
    expect(cancel(first, { requestId: 'b' })).toBeUndefined()
    expect(cancel(second, { requestId: 'a' })).toBeUndefined()
    expect(cancel(first, { requestId: 'a' })).toMatchObject({ params: { requestId: 'a' } })
    expect(requests.take(reply('a'))).toBeUndefined()
  })

  test('keeps requests of two sessions apart that have the same id', () => {
    const requests = new ServerRequests()
    const one = requests.asked(ask(1), first)
    const other = requests.asked(ask(1), second)
    expect(one.id).toBe(1)
    expect(other.id).not.toBe(1)
    const params = { requestId: 1 }
    const method = 'notifications/cancelled'
    expect(requests.cancelled({ jsonrpc: '2.0', method, params }, second)).toMatchObject({
      params: { requestId: other.id },
    })
    const again = requests.asked(ask(1), second)
    expect(requests.take(reply(again.id))).toEqual({ id: 1, session: second })
    expect(requests.take(reply(1))).toEqual({ id: 1, session: first })
  })
})
