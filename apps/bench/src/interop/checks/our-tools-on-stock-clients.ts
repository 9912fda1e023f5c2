import { loadMcpTools } from '@x/langchain-mcp'
import { loadMcpPrompt } from '@x/langchain-mcp/prompts'
import { loadMcpResources } from '@x/langchain-mcp/resources'
import { startEverythingServer } from '../../../../../packages/internal/src/testing/index.ts'
import { startLegacyServer } from '@x/mcp-testing'
import { expectThat } from '../check.ts'
import type { Check } from '../check.ts'
import { onStockTransport, SDK_VERSIONS } from '../sdk-clients.ts'
import type { SdkVersion } from '../sdk-clients.ts'
import { callsOf } from '../tools.ts'

/** Our `loadMcpTools`, with the SDK's own client on its own transport. */
export const ourToolsOnStockClients: readonly Check[] = SDK_VERSIONS.flatMap((version) => {
  const group = `@x/langchain-mcp, SDK ${version} Client, its own transport`
  return [
    { group, name: 'lists and calls', run: () => listsAndCalls(version) },
    { group, name: 'lists all pages', run: () => listsPages(version) },
    { group, name: 'tells the model of a failed tool', run: () => tellsFailure(version) },
    { group, name: 'cancels with the signal of the run', run: () => cancels(version) },
    { group, name: 'ends in time with the limit of the call', run: () => ends(version) },
    { group, name: 'tells the model of a lost session', run: () => tellsLoss(version) },
    { group, name: 'reads resources and a prompt', run: () => readsTheRest(version) },
  ]
})

async function listsAndCalls(version: SdkVersion): Promise<void> {
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

async function tellsFailure(version: SdkVersion): Promise<void> {
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

async function tellsLoss(version: SdkVersion): Promise<void> {
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
