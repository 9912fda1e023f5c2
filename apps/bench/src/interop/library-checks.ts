import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadMcpTools as loadToolsOfAdapters } from '@langchain/mcp-adapters'
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as HttpV2,
} from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as HttpV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { loadMcpTools } from '@x/langchain-mcp'
import { loadMcpPrompt } from '@x/langchain-mcp/prompts'
import { loadMcpResources } from '@x/langchain-mcp/resources'
import { startLegacyServer, startRecordingProxy } from '@x/mcp-testing'
import type { LegacyServer, LegacyServerOptions } from '@x/mcp-testing'
import { FileSessionInfo, StreamableHttpTransport } from '@x/mcp-transport'
import type { StreamableHttpTransportOptions } from '@x/mcp-transport'
import { startEverythingServer } from '../../../../packages/internal/src/testing/index.ts'
import { expectContains, expectThat } from './check.ts'
import type { Check } from './check.ts'
import { callsOf, CLIENT_INFO, SDK_VERSIONS } from './clients.ts'
import type { SdkVersion, ToolCalls } from './clients.ts'

/** A connected `Client`. */
type SdkClient = (ClientV1 | ClientV2) & AsyncDisposable

/** A client with a server of its own, and its tools. */
interface World {
  readonly server: LegacyServer
  readonly client: SdkClient
  readonly tools: ToolCalls
  readonly version: SdkVersion
}

interface LibraryCheck {
  readonly name: string
  readonly serverOptions?: LegacyServerOptions
  readonly transportOptions?: StreamableHttpTransportOptions
  readonly run: (world: World) => Promise<void>
}

const HEALING = { onSessionLost: 'reinitialize' } as const

async function heals({ server, tools }: World): Promise<void> {
  await tools.call('counter_add')
  server.forgetSessions()
  expectContains(await tools.call('counter_add'), 'counter is 1')
  expectThat(server.executions('counter_add') === 2, 'a call ran twice, or never')
}

const ADAPTER_CHECKS: readonly LibraryCheck[] = [
  {
    name: 'lists and calls',
    async run({ server, tools }) {
      expectThat(tools.names.includes('cart_add'), `listed ${tools.names.join(', ')}`)
      await tools.call('cart_add', { item: 'apples' })
      expectContains(await tools.call('cart_add', { item: 'pears' }), 'cart holds apples, pears')
      expectThat(server.count('initialize') === 1, `${server.count('initialize')} handshakes`)
    },
  },
  {
    name: 'reads answers in event streams',
    serverOptions: { answerAs: 'sse' },
    async run({ tools }) {
      expectContains(await tools.call('echo', { text: 'streamed' }), 'streamed')
    },
  },
  ...([404, 400] as const).map((status) => ({
    name: `heals a lost session (${status})`,
    serverOptions: { lossForm: status === 404 ? '404-32001' : '400-no-valid' } as const,
    transportOptions: HEALING,
    run: heals,
  })),
  {
    name: 'heals for 16 calls with one handshake',
    transportOptions: HEALING,
    async run({ server, tools }) {
      server.forgetSessions()
      await Promise.all(Array.from({ length: 16 }, () => tools.call('counter_add')))
      const handshakes = server.count('initialize') - 1
      expectThat(handshakes === 1, `${handshakes} handshakes for one loss`)
      expectThat(server.executions('counter_add') === 16, 'a call ran twice, or never')
    },
  },
  {
    name: 'resumes a session from a file',
    async run({ version, server }) {
      await using folder = await mkdtempDisposable(join(tmpdir(), 'interop-'))
      const file = join(folder.path, 'session.json')
      const before = server.count('initialize')
      for (const count of [1, 2]) {
        const sessionInfo = new FileSessionInfo(file)
        await using client = await onOurTransport(version, server.url, { ...HEALING, sessionInfo })
        const tools = await toolsOfAdapters(client)
        expectContains(await tools.call('counter_add'), `counter is ${count}`)
      }
      const handshakes = server.count('initialize') - before
      expectThat(handshakes === 1, `${handshakes} handshakes`)
    },
  },
  {
    name: 'reports a failed tool',
    async run({ tools }) {
      const error = await rejectionOf(tools.call('fail'))
      expectThat(error.name === 'ToolException', `${error.name}: ${error.message}`)
      expectContains(await tools.call('echo', { text: 'still here' }), 'still here')
    },
  },
  {
    name: 'never repeats a call that may have run',
    async run({ version, server }) {
      await using proxy = await startRecordingProxy(server.url)
      await using client = await onOurTransport(version, proxy.url, HEALING)
      const tools = await toolsOfAdapters(client)
      proxy.inject({
        match: ({ toolName }) => toolName === 'counter_add',
        times: 1,
        action: 'reset-after',
      })
      const error = await rejectionOf(tools.call('counter_add'))
      expectThat(error.name === 'ToolException', `${error.name}: ${error.message}`)
      // The adapters keep the text of an error only.
      expectContains(error.message, 'broke before the answer was complete')
      expectThat(server.executions('counter_add') === 1, 'the call ran twice, or never')
      expectContains(await tools.call('counter_add'), 'counter is 2')
    },
  },
]

/** `loadMcpTools` of LangChain's adapters with the SDK's client on our transport. */
export const adaptersOnOurTransport: readonly Check[] = SDK_VERSIONS.flatMap((version) =>
  ADAPTER_CHECKS.map(({ name, serverOptions, transportOptions = {}, run }) => ({
    group: `@langchain/mcp-adapters, SDK ${version} Client, our transport`,
    name,
    run: async () => {
      await using server = await startLegacyServer(serverOptions)
      await using client = await onOurTransport(version, server.url, transportOptions)
      await run({ version, server, client, tools: await toolsOfAdapters(client) })
    },
  })),
)

async function rejectionOf(work: Promise<unknown>): Promise<Error> {
  const outcome = await work.then(
    (answer) => new Error(`it returned ${String(answer)}`),
    (error: unknown) => error,
  )
  return outcome instanceof Error ? outcome : new Error(String(outcome))
}

const OUR_CHECKS: readonly LibraryCheck[] = [
  {
    name: 'lists and calls',
    async run({ tools }) {
      await tools.call('cart_add', { item: 'apples' })
      expectContains(await tools.call('cart_add', { item: 'pears' }), 'cart holds apples, pears')
    },
  },
  {
    name: 'lists all pages',
    serverOptions: { pageSize: 2 },
    async run({ tools: { names } }) {
      expectThat(names.length > 4 && new Set(names).size === names.length, names.join(', '))
    },
  },
  {
    name: 'reports a failed tool to the model',
    async run({ client }) {
      const fail = (await loadMcpTools(client)).find(({ name }) => name === 'fail')
      const call = { id: 'c1', name: 'fail', args: {}, type: 'tool_call' } as const
      const answer: unknown = await fail?.invoke(call)
      const isError = typeof answer === 'object' && answer !== null && 'status' in answer
      expectThat(isError && answer.status === 'error', JSON.stringify(answer))
    },
  },
  {
    name: 'cancels with the signal of the run',
    async run({ server, client }) {
      const slow = (await loadMcpTools(client)).find(({ name }) => name === 'slow')
      const abort = new AbortController()
      const call = slow?.invoke({}, { signal: abort.signal })
      await server.waitFor(({ toolName }) => toolName === 'slow')
      const reason = new Error('enough')
      abort.abort(reason)
      const error: unknown = await call?.then(
        () => undefined,
        (thrown: unknown) => thrown,
      )
      expectThat(error === reason, `it ended with ${String(error)}`)
      await server.waitFor(({ rpcMethod }) => rpcMethod === 'notifications/cancelled')
    },
  },
  {
    name: 'ends at the time limit of the call',
    async run({ client }) {
      const answer = await callsOf(await loadMcpTools(client, { timeoutMs: 50 })).call('slow')
      expectThat(/in time|may or may not/.test(answer), answer)
    },
  },
  {
    name: 'reports a lost session to the model',
    async run({ server, tools }) {
      await tools.call('counter_add')
      server.forgetSessions()
      const answer = await tools.call('counter_add')
      expectThat(!answer.includes('counter is'), answer)
      expectThat(server.executions('counter_add') === 1, 'the call ran')
    },
  },
  {
    name: 'reads resources and a prompt',
    async run({ version }) {
      await using server = await startEverythingServer()
      await using client = await onStockTransport(version, server.url)
      const { documents, blobs } = await loadMcpResources(client)
      expectThat(documents.length > 0, `${documents.length} documents, ${blobs.length} blobs`)
      const [message] = await loadMcpPrompt(client, 'args-prompt', { city: 'Ulm' })
      expectThat(message?.text.includes('Ulm') === true, JSON.stringify(message))
    },
  },
]

/** Our `loadMcpTools` with the SDK's client on its own transport. */
export const ourToolsOnStockClients: readonly Check[] = SDK_VERSIONS.flatMap((version) =>
  OUR_CHECKS.map(({ name, serverOptions, run }) => ({
    group: `@x/langchain-mcp, SDK ${version} Client, its own transport`,
    name,
    run: async () => {
      await using server = await startLegacyServer(serverOptions)
      await using client = await onStockTransport(version, server.url)
      await run({ version, server, client, tools: callsOf(await loadMcpTools(client)) })
    },
  })),
)

function onOurTransport(
  version: SdkVersion,
  url: string,
  options: StreamableHttpTransportOptions,
): Promise<SdkClient> {
  return connected(version, new StreamableHttpTransport(url, options))
}

function onStockTransport(version: SdkVersion, url: string): Promise<SdkClient> {
  return connected(version, new (version === 'v1' ? HttpV1 : HttpV2)(new URL(url)))
}

async function connected(
  version: SdkVersion,
  transport: StreamableHttpTransport | HttpV1 | HttpV2,
): Promise<SdkClient> {
  const client = version === 'v1' ? new ClientV1(CLIENT_INFO) : new ClientV2(CLIENT_INFO)
  await client.connect(transport)
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

type AdaptersClient = Parameters<typeof loadToolsOfAdapters>[1]

/** The adapters are typed for SDK v1. They use two methods, which the `Client` of v2 has too. */
async function toolsOfAdapters(client: SdkClient): Promise<ToolCalls> {
  return callsOf(await loadToolsOfAdapters('shop', client as unknown as AdaptersClient))
}
