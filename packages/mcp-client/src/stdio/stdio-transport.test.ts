import { describe, expect, test } from 'vitest'
import { parseMessages } from './stdio-transport.ts'

const jsonrpc = '2.0'

describe('parseMessages accepts', () => {
  test.each([
    { jsonrpc, id: 1, result: {} },
    { jsonrpc, id: 'a', error: { code: -1, message: 'no' } },
    { jsonrpc, id: null, error: { code: -32_700, message: 'parse error' } },
    { jsonrpc, method: 'notifications/message', params: {} },
    { jsonrpc, id: 0, method: 'ping' },
  ])('%o', (message) => {
    expect(parseMessages(JSON.stringify(message))).toEqual([message])
    expect(parseMessages(JSON.stringify([message, message]))).toEqual([message, message])
  })
})

describe('parseMessages rejects', () => {
  test.each([
    'Listening on port 3000',
    '{"jsonrpc":"2.0","id":1,"result":{}',
    'null',
    '1',
    '[]',
    '{}',
    '{"jsonrpc":"1.0","id":1,"result":{}}',
    '{"jsonrpc":"2.0","id":1}',
    '{"jsonrpc":"2.0","id":1,"result":1}',
    '{"jsonrpc":"2.0","id":{},"result":{}}',
    '{"jsonrpc":"2.0","id":1,"error":"no"}',
    '{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"both"}}',
    '{"jsonrpc":"2.0","method":"x","params":1}',
    '[{"jsonrpc":"2.0","method":"x"},1]',
  ])('%s', (line) => {
    expect(parseMessages(line)).toBeUndefined()
  })
})
