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
import type { LossFormName } from '@x/mcp-testing'
import { FileSessionInfo, StreamableHttpTransport } from '@x/mcp-transport'
import type { StreamableHttpTransportOptions } from '@x/mcp-transport'
import { startEverythingServer } from '../../../../packages/internal/src/testing/index.ts'
import { expectThat } from './check.ts'
import type { Check } from './check.ts'
import { callsOf, CLIENT_INFO, SDK_VERSIONS } from './clients.ts'
import type { SdkVersion, ToolCalls } from './clients.ts'

/** A connected `Client`. */
type SdkClient = (ClientV1 | ClientV2) & AsyncDisposable

/** `loadMcpTools` of LangChain's adapters with the SDK's client on our transport. */
export const adaptersOnOurTransport: readonly Check[] = SDK_VERSIONS.flatMap((version) => {
  const group = `@langchain/mcp-adapters, SDK ${version} Client, our transport`
  return [
    { group, name: 'lists and calls', run: () => listsAndCalls(version) },
    { group, name: 'reads answers in event streams', run: () => readsStreams(version) },
    { group, name: 'heals a lost session (404)', run: () => heals(version, '404-32001') },
    { group, name: 'heals a lost session (400)', run: () => heals(version, '400-no-valid') },
    { group, name: 'heals for 16 calls with one handshake', run: () => healsOnce(version) },
    { group, name: 'resumes a session from a file', run: () => resumes(version) },
    { group, name: 'reports a failed tool', run: () => reportsFailure(version) },
    { group, name: 'never repeats a call that may have run', run: () => neverRepeats(version) },
  ]
})

const HEALING = { onSessionLost: 'reinitialize' } as const

async function listsAndCalls(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
  await using client = await onOurTransport(version, server.url)
  const tools = await toolsOfAdapters(client)
  expectThat(tools.names.includes('cart_add'), `listed ${tools.names.join(', ')}`)
  await tools.call('cart_add', { item: 'apples' })
  const answer = await tools.call('cart_add', { item: 'pears' })
  expectThat(answer.includes('cart holds apples, pears'), answer)
  expectThat(server.count('initialize') === 1, `${server.count('initialize')} handshakes`)
}

async function readsStreams(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer({ answerAs: 'sse' })
  await using client = await onOurTransport(version, server.url)
  const answer = await (await toolsOfAdapters(client)).call('echo', { text: 'streamed' })
  expectThat(answer.includes('streamed'), answer)
}

async function heals(version: SdkVersion, lossForm: LossFormName): Promise<void> {
  await using server = await startLegacyServer({ lossForm })
  await using client = await onOurTransport(version, server.url, HEALING)
  const tools = await toolsOfAdapters(client)
  await tools.call('counter_add')
  server.forgetSessions()
  const answer = await tools.call('counter_add')
  expectThat(answer.includes('counter is 1'), answer)
  expectThat(server.executions('counter_add') === 2, 'a call ran twice, or never')
}

async function healsOnce(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
  await using client = await onOurTransport(version, server.url, HEALING)
  const tools = await toolsOfAdapters(client)
  server.forgetSessions()
  await Promise.all(Array.from({ length: 16 }, () => tools.call('counter_add')))
  const handshakes = server.count('initialize') - 1
  expectThat(handshakes === 1, `${handshakes} handshakes for one loss`)
  expectThat(server.executions('counter_add') === 16, 'a call ran twice, or never')
}

async function resumes(version: SdkVersion): Promise<void> {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'interop-'))
  const file = join(folder.path, 'session.json')
  await using server = await startLegacyServer()
  const countTo = async (count: number): Promise<void> => {
    const sessionInfo = new FileSessionInfo(file)
    await using client = await onOurTransport(version, server.url, { ...HEALING, sessionInfo })
    const answer = await (await toolsOfAdapters(client)).call('counter_add')
    expectThat(answer.includes(`counter is ${count}`), answer)
  }
  await countTo(1)
  await countTo(2)
  expectThat(server.count('initialize') === 1, `${server.count('initialize')} handshakes`)
}

async function reportsFailure(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
  await using client = await onOurTransport(version, server.url)
  const tools = await toolsOfAdapters(client)
  const error = await rejectionOf(tools.call('fail'))
  expectThat(error.name === 'ToolException', `${error.name}: ${error.message}`)
  const answer = await tools.call('echo', { text: 'still here' })
  expectThat(answer.includes('still here'), answer)
}

async function neverRepeats(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
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
  expectThat(error.message.includes('broke before the answer was complete'), error.message)
  expectThat(server.executions('counter_add') === 1, 'the call ran twice, or never')
  const answer = await tools.call('counter_add')
  expectThat(answer.includes('counter is 2'), answer)
}

async function rejectionOf(work: Promise<unknown>): Promise<Error> {
  const outcome = await work.then(
    (answer) => new Error(`it returned ${String(answer)}`),
    (error: unknown) => error,
  )
  return outcome instanceof Error ? outcome : new Error(String(outcome))
}

/** Our `loadMcpTools` with the SDK's client on its own transport. */
export const ourToolsOnStockClients: readonly Check[] = SDK_VERSIONS.flatMap((version) => {
  const group = `@x/langchain-mcp, SDK ${version} Client, its own transport`
  return [
    { group, name: 'lists and calls', run: () => callsOurTools(version) },
    { group, name: 'lists all pages', run: () => listsPages(version) },
    {
      group,
      name: 'reports a failed tool to the model',
      run: () => reportsFailureToModel(version),
    },
    { group, name: 'cancels with the signal of the run', run: () => cancels(version) },
    { group, name: 'ends at the time limit of the call', run: () => ends(version) },
    { group, name: 'reports a lost session to the model', run: () => reportsLossToModel(version) },
    { group, name: 'reads resources and a prompt', run: () => readsTheRest(version) },
  ]
})

async function callsOurTools(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
  await using client = await onStockTransport(version, server.url)
  const tools = callsOf(await loadMcpTools(client))
  await tools.call('cart_add', { item: 'apples' })
  const answer = await tools.call('cart_add', { item: 'pears' })
  expectThat(answer.includes('cart holds apples, pears'), answer)
}

async function listsPages(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer({ pageSize: 2 })
  await using client = await onStockTransport(version, server.url)
  const { names } = callsOf(await loadMcpTools(client))
  expectThat(names.length > 4 && new Set(names).size === names.length, names.join(', '))
}

async function reportsFailureToModel(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
  await using client = await onStockTransport(version, server.url)
  const fail = (await loadMcpTools(client)).find(({ name }) => name === 'fail')
  const answer: unknown = await fail?.invoke({
    id: 'c1',
    name: 'fail',
    args: {},
    type: 'tool_call',
  })
  const isError = typeof answer === 'object' && answer !== null && 'status' in answer
  expectThat(isError && answer.status === 'error', JSON.stringify(answer))
}

async function cancels(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
  await using client = await onStockTransport(version, server.url)
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
}

async function ends(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
  await using client = await onStockTransport(version, server.url)
  const tools = callsOf(await loadMcpTools(client, { timeoutMs: 50 }))
  const answer = await tools.call('slow')
  expectThat(/in time|may or may not/.test(answer), answer)
}

async function reportsLossToModel(version: SdkVersion): Promise<void> {
  await using server = await startLegacyServer()
  await using client = await onStockTransport(version, server.url)
  const tools = callsOf(await loadMcpTools(client))
  await tools.call('counter_add')
  server.forgetSessions()
  const answer = await tools.call('counter_add')
  expectThat(!answer.includes('counter is'), answer)
  expectThat(server.executions('counter_add') === 1, 'the call ran')
}

async function readsTheRest(version: SdkVersion): Promise<void> {
  await using server = await startEverythingServer()
  await using client = await onStockTransport(version, server.url)
  const { documents, blobs } = await loadMcpResources(client)
  expectThat(documents.length > 0, `${documents.length} documents, ${blobs.length} blobs`)
  const [message] = await loadMcpPrompt(client, 'args-prompt', { city: 'Ulm' })
  expectThat(message?.text.includes('Ulm') === true, JSON.stringify(message))
}

async function onOurTransport(
  version: SdkVersion,
  url: string,
  options: StreamableHttpTransportOptions = {},
): Promise<SdkClient> {
  const transport = new StreamableHttpTransport(url, options)
  if (version === 'v1') {
    const client = new ClientV1(CLIENT_INFO)
    await client.connect(transport)
    return disposable(client)
  }
  const client = new ClientV2(CLIENT_INFO)
  await client.connect(transport)
  return disposable(client)
}

async function onStockTransport(version: SdkVersion, url: string): Promise<SdkClient> {
  if (version === 'v1') {
    const client = new ClientV1(CLIENT_INFO)
    await client.connect(new HttpV1(new URL(url)))
    return disposable(client)
  }
  const client = new ClientV2(CLIENT_INFO)
  await client.connect(new HttpV2(new URL(url)))
  return disposable(client)
}

function disposable<Client extends ClientV1 | ClientV2>(client: Client): Client & AsyncDisposable {
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

type AdaptersClient = Parameters<typeof loadToolsOfAdapters>[1]

/** The adapters are typed for SDK v1. They use two methods, which the `Client` of v2 has too. */
async function toolsOfAdapters(client: SdkClient): Promise<ToolCalls> {
  return callsOf(await loadToolsOfAdapters('shop', client as unknown as AdaptersClient))
}
