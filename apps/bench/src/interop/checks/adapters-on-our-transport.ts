import { mkdtempDisposable } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FileSessionInfo } from '@x/mcp-transport'
import { startRecordingProxy, startLegacyServer } from '@x/mcp-testing'
import type { LossFormName } from '@x/mcp-testing'
import { expectThat } from '../check.ts'
import type { Check } from '../check.ts'
import { onOurTransport, SDK_VERSIONS } from '../sdk-clients.ts'
import type { SdkVersion } from '../sdk-clients.ts'
import { toolsOfAdapters } from '../tools.ts'

/** `loadMcpTools` of LangChain's adapters, with the SDK's own client on our transport. */
export const adaptersOnOurTransport: readonly Check[] = SDK_VERSIONS.flatMap((version) => {
  const group = `@langchain/mcp-adapters, SDK ${version} Client, our transport`
  return [
    { group, name: 'lists and calls', run: () => listsAndCalls(version) },
    { group, name: 'reads answers that come as event streams', run: () => readsStreams(version) },
    { group, name: 'heals a lost session (404)', run: () => heals(version, '404-32001') },
    { group, name: 'heals a lost session (400)', run: () => heals(version, '400-no-valid') },
    { group, name: 'heals for 16 calls with one handshake', run: () => healsOnce(version) },
    { group, name: 'resumes a session from a file', run: () => resumes(version) },
    { group, name: 'tells a failed tool', run: () => tellsFailure(version) },
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

async function tellsFailure(version: SdkVersion): Promise<void> {
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
  // The adapters keep the text of an error, and drop its cause.
  expectThat(error.message.includes('broke before the answer was complete'), error.message)
  expectThat(server.executions('counter_add') === 1, 'the call ran twice, or never')
  const answer = await tools.call('counter_add')
  expectThat(answer.includes('counter is 2'), answer)
}

async function rejectionOf(work: Promise<unknown>): Promise<Error> {
  const outcome = await work.then(
    (answer) => new Error(`it did not fail: ${String(answer)}`),
    (error: unknown) => error,
  )
  return outcome instanceof Error ? outcome : new Error(String(outcome))
}
