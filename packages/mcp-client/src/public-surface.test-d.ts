import type * as openTelemetry from '@opentelemetry/api'
import type { ReadableStream } from 'node:stream/web'
import type { CallToolResult, Tool } from '@modelcontextprotocol/sdk/types.js'
import type { TransportErrorCode } from '@x/mcp-transport'
import { describe, expectTypeOf, test } from 'vitest'
import { currentRun, McpClient, runInSessionScope, SessionInfoFactory } from './index.ts'
import type {
  CurrentRun,
  StaticServerDirectory,
  McpClientError,
  McpClientErrorCode,
  McpClientEvents,
  McpServerDirectory,
  McpClientStatus,
  OpenTelemetry,
} from './index.ts'

const url = 'https://shop.example/mcp'
declare const client: McpClient
declare const numbers: () => AsyncGenerator<number>
declare const readable: () => ReadableStream<string>

describe('a config', () => {
  test('names a server by slug, by name or by URL', () => {
    void new McpClient({ url })
    void new McpClient({ url: new URL(url), headers: { authorization: 'Bearer x' } })
    void new McpClient({ url, headers: async ({ httpMethod }) => ({ 'x-method': httpMethod }) })
    void new McpClient({ slug: 'shop', folderPath: 'Shared' })
    void new McpClient({ name: 'The shop', folderPath: undefined })
  })

  test('without a server is an error', () => {
    // @ts-expect-error -- a folder is not a server
    void new McpClient({ folderPath: 'Shared' })
  })
})

describe('options', () => {
  test('a misspelt option is an error', () => {
    // @ts-expect-error -- it is called `terminateOnClose`
    void new McpClient({ url }, { terminateOnDispose: true })
  })

  test('an unknown replay policy is an error', () => {
    // @ts-expect-error -- 'session-loss', 'idempotent' or 'never'
    void new McpClient({ url }, { replay: 'always' })
  })

  test('undefined means the default', () => {
    void new McpClient({ url }, { timeoutMs: undefined, replay: undefined, directory: undefined })
    void client.callTool('x', undefined, { signal: undefined, idempotent: undefined })
  })

  test('any object with retrieve() is a directory', () => {
    expectTypeOf<StaticServerDirectory>().toExtend<McpServerDirectory>()
    const directory = { retrieve: async () => ({ mcpUrl: url, anything: 1 }) }
    void new McpClient({ slug: 'shop' }, { directory })
  })

  test('a session factory may declare fewer parameters', () => {
    class Factory extends SessionInfoFactory {
      override createSession(server: {
        readonly slug?: string | undefined
      }): ReturnType<SessionInfoFactory['createSession']> {
        return super.createSession(server)
      }
    }
    void new McpClient({ url }, { sessionInfoFactory: new Factory() })
  })
})

describe('operations', () => {
  test('return the types of the SDK', () => {
    expectTypeOf(client.callTool('x')).resolves.toEqualTypeOf<CallToolResult>()
    expectTypeOf(client.listTools()).resolves.toEqualTypeOf<readonly Tool[]>()
    expectTypeOf(client.getSessionId()).resolves.toEqualTypeOf<string | undefined>()
    expectTypeOf(client.isClientInitialized).toEqualTypeOf<boolean>()
  })

  test('a list of tools is readonly', async () => {
    const tools = await client.listTools()
    // @ts-expect-error -- it is shared
    tools.pop()
  })
})

test('listeners are typed by the name of their event', () => {
  expectTypeOf(client.on('state', ({ from, to }) => `${from} ${to}`)).toEqualTypeOf<() => void>()
  client.on('sessionReplaced', (event) => {
    expectTypeOf(event).toEqualTypeOf<McpClientEvents['sessionReplaced']>()
  })
  // @ts-expect-error -- no such event
  client.on('closed', () => {})
})

test('errors have a closed set of codes, and a known outcome', () => {
  expectTypeOf<TransportErrorCode>().toExtend<McpClientErrorCode>()
  expectTypeOf<McpClientError['code']>().toEqualTypeOf<McpClientErrorCode>()
  expectTypeOf<McpClientError['outcome']>().toEqualTypeOf<
    'not-executed' | 'unknown' | 'executed' | undefined
  >()
  expectTypeOf<McpClient>().toExtend<AsyncDisposable>()
})

describe('a scope', () => {
  test('is passed to header functions, handlers and authProvider functions', () => {
    void new McpClient({ url, headers: ({ scope }) => ({ 'x-user': scope?.principal ?? '' }) })
    void new McpClient(
      { url },
      {
        authProvider: (_server, scope) =>
          scope?.principal === 'ann' ? { token: () => 'x' } : undefined,
        handlers: { roots: ({ scope }) => [{ uri: `file:///home/${scope?.principal}` }] },
      },
    )
    expectTypeOf(client.status().sessions).items.toHaveProperty('scope')
  })
})

describe('a run', () => {
  test('returns a promise of the result of its function, and streams as streams', () => {
    expectTypeOf(runInSessionScope(() => 1)).toEqualTypeOf<Promise<number>>()
    expectTypeOf(runInSessionScope(async () => 'x')).toEqualTypeOf<Promise<string>>()
    expectTypeOf(runInSessionScope(numbers)).toEqualTypeOf<AsyncGenerator<number>>()
    expectTypeOf(runInSessionScope(async () => numbers())).toEqualTypeOf<
      Promise<AsyncGenerator<number>>
    >()
    expectTypeOf(runInSessionScope(readable)).toEqualTypeOf<ReadableStream<string>>()
  })

  test('can be read and detached by its code, but not ended', () => {
    expectTypeOf(currentRun()).toEqualTypeOf<CurrentRun | undefined>()
    expectTypeOf<CurrentRun>().toHaveProperty('signal').toEqualTypeOf<AbortSignal>()
    expectTypeOf<CurrentRun>().not.toHaveProperty('end')
    expectTypeOf<CurrentRun>().not.toHaveProperty('abort')
  })
})

test('the module @opentelemetry/api is an OpenTelemetry', () => {
  expectTypeOf<typeof openTelemetry>().toExtend<OpenTelemetry>()
})

test('the state of a status is a union of literals', () => {
  expectTypeOf<McpClientStatus['state']>().toEqualTypeOf<
    'created' | 'connecting' | 'handshaking' | 'active' | 'idle' | 'disposing'
  >()
})
