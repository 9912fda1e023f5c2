import { expect, test } from 'vitest'

import { ServerRequestIds } from './server-request-ids.ts'

const ids = new ServerRequestIds('r1')

test('the answer to a request finds the process that asked', () => {
  const request = ids.outgoing({ jsonrpc: '2.0', id: 0, method: 'elicitation/create', params: {} })
  expect(request).toMatchObject({ id: 'r1.0', method: 'elicitation/create' })
  const answer = { jsonrpc: '2.0', id: 'r1.0', result: { action: 'accept' } }
  expect(new ServerRequestIds('r2').incoming(answer)).toEqual({
    replica: 'r1',
    message: { ...answer, id: 0 },
  })
})

test('so does its progress, and a request that is given up is named as the client knows it', () => {
  const params = { _meta: { progressToken: 4 } }
  const request = ids.outgoing({ jsonrpc: '2.0', id: 4, method: 'elicitation/create', params })
  expect(request).toMatchObject({ params: { _meta: { progressToken: 'r1.4' } } })
  const progress = { progressToken: 'r1.4', progress: 1 }
  expect(
    ids.incoming({ jsonrpc: '2.0', method: 'notifications/progress', params: progress }),
  ).toMatchObject({ replica: 'r1', message: { params: { progressToken: 4 } } })
  const cancelled = { requestId: 4, reason: 'late' }
  expect(
    ids.outgoing({ jsonrpc: '2.0', method: 'notifications/cancelled', params: cancelled }),
  ).toMatchObject({ params: { requestId: 'r1.4', reason: 'late' } })
})

test('what clients ask, and our answers, are left alone', () => {
  const answer = { jsonrpc: '2.0', id: 7, result: {} } as const
  expect(ids.outgoing(answer)).toBe(answer)
  expect(ids.incoming({ jsonrpc: '2.0', id: 'r1.1', method: 'tools/call' })).toBeUndefined()
  expect(ids.incoming({ jsonrpc: '2.0', id: 3, result: {} })).toBeUndefined()
  expect(ids.incoming('text')).toBeUndefined()
})
