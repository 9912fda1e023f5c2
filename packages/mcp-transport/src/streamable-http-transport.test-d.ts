import { Client as ClientV2 } from '@modelcontextprotocol/client'
import type { Transport as TransportV2 } from '@modelcontextprotocol/client'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { expectTypeOf, test } from 'vitest'
import { SessionInfo, StreamableHttpTransport, TransportError } from './index.ts'
import type { Era, HeadersOption, TransportErrorCode } from './index.ts'

test('the client of SDK v1 takes it without a cast', () => {
  expectTypeOf<StreamableHttpTransport>().toExtend<Transport>()
  const client = new Client({ name: 'app', version: '1.0.0' })
  void client.connect(new StreamableHttpTransport('https://shop.example/mcp'))
})

test('so does the client of SDK v2', () => {
  expectTypeOf<StreamableHttpTransport>().toExtend<TransportV2>()
  const client = new ClientV2({ name: 'app', version: '1.0.0' })
  void client.connect(new StreamableHttpTransport('https://shop.example/mcp'))
})

test('a misspelt option is an error', () => {
  // @ts-expect-error -- it is called `sessionInfo`
  void new StreamableHttpTransport('https://shop.example/mcp', { session: new SessionInfo() })
  // @ts-expect-error -- it is called `connectMs`
  void new StreamableHttpTransport('https://shop.example/mcp', { timeouts: { connect: 1 } })
})

test('an explicit undefined means the default', () => {
  void new StreamableHttpTransport('https://shop.example/mcp', {
    sessionInfo: undefined,
    headers: undefined,
    listen: undefined,
    limits: { eventBytes: undefined },
  })
})

test('headers are an object or a function, also an async one', () => {
  expectTypeOf<{ authorization: string }>().toExtend<HeadersOption>()
  expectTypeOf<() => Promise<{ authorization: string }>>().toExtend<HeadersOption>()
  expectTypeOf<string>().not.toExtend<HeadersOption>()
})

test('what it knows is read-only', () => {
  const transport = new StreamableHttpTransport('https://shop.example/mcp')
  expectTypeOf(transport.sessionId).toEqualTypeOf<string | undefined>()
  expectTypeOf(transport.era).toEqualTypeOf<Era | undefined>()
  // @ts-expect-error -- as negotiated
  transport.protocolVersion = '2025-11-25'
})

test('a code narrows, and is never just a string', () => {
  expectTypeOf<TransportErrorCode>().not.toEqualTypeOf<string>()
  expectTypeOf(new TransportError('CLOSED', 'x').code).toEqualTypeOf<TransportErrorCode>()
  // @ts-expect-error -- not one of the codes
  void new TransportError('OOPS', 'x')
})

test('an adapter may override just the ids', () => {
  class OnlyId extends SessionInfo {
    override readonly durable = true
    override async getSessionId(): Promise<string | undefined> {
      return undefined
    }
  }
  expectTypeOf<OnlyId>().toExtend<SessionInfo>()
})
