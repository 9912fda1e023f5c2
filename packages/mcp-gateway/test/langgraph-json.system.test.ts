import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { sourceNode } from '@x/internal/testing'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { configFolder, type ConfigFolder } from './config-folder.ts'
import { startFakeAnthropic } from './fake-anthropic.ts'
import { connect } from './mcp-clients.ts'

const MAIN = fileURLToPath(new URL('../src/cli/main.ts', import.meta.url))
const fixture = (path: string): string =>
  fileURLToPath(new URL(`fixtures/${path}/langgraph.json`, import.meta.url))

type Variables = Readonly<Record<string, string>>

function startCommand(args: readonly string[], env: Variables = {}) {
  return spawn(sourceNode, ['--conditions=mcp-source', MAIN, ...args], {
    env: { ...process.env, ...env },
  })
}

/** Runs the command until its end. */
async function run(args: readonly string[], env?: Variables) {
  const child = startCommand(args, env)
  const [out, err, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { code: code as number, out, err }
}

const TOKEN = 'token-of-ada-0123456789'
const ADA = { requestInit: { headers: { authorization: `Bearer ${TOKEN}` } } }

interface Served extends AsyncDisposable {
  readonly url: string
  /** Calls a tool as Ada. */
  call(
    name: string,
    args?: Readonly<Record<string, unknown>>,
  ): Promise<Readonly<Record<string, unknown>>>
  /** What the command wrote to standard error. */
  readonly said: Promise<string>
}

/** Serves a file in a process of its own. Its first line is the address. */
async function serve(file: string, env?: Variables): Promise<Served> {
  const child = startCommand(['serve', file, '--port', '0', '--log-level', 'warn'], env)
  const closed = once(child, 'close')
  const said = text(child.stderr)
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const first = await lines.next()
  if (first.done === true) throw new Error(await said)
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(new StreamableHTTPClientTransport(new URL(first.value), ADA))
  return {
    url: first.value,
    said,
    call: (name, args = { message: 'Hi' }) => client.callTool({ name, arguments: args }),
    [Symbol.asyncDispose]: async () => {
      await client.close()
      child.kill('SIGTERM')
      await closed
    },
  }
}

/** Returns a configuration in which Ada has a token. */
function withAda(config: string): string {
  return `sources:
  - { type: langgraph, config: ${JSON.stringify(config)} }
auth: { tokens: { ada: { token: ${TOKEN}, scopes: ['*'] } } }
`
}

let folder: ConfigFolder
beforeAll(async () => {
  folder = await configFolder()
})
afterAll(() => folder[Symbol.asyncDispose]())

describe('the kinds of graphs that a langgraph.json may name', () => {
  let served: Served
  beforeAll(async () => {
    const file = await folder.file('kinds.yaml', withAda(fixture('langgraph-kinds')))
    const defaults = { factory: { configurable: { word: 'from LangGraph', thread_id: 7 } } }
    served = await serve(file, {
      FROM_BOTH: 'of the operator',
      LANGGRAPH_CONFIG: JSON.stringify(defaults),
    })
  })
  afterAll(() => served[Symbol.asyncDispose]())

  test.each([
    ['extensionless', 'extensionless'],
    ['js_means_ts', 'js means ts'],
    ['folder_index', 'folder index'],
    ['enums', 'enum 1 namespace'],
    ['unmarked_types', 'unmarked types'],
    ['parameter_properties', 'parameter property'],
    ['tsconfig_paths', 'paths, folder index'],
    ['json', 'json'],
    ['jsx', '<b>jsx</b>'],
    ['decorators', 'DECORATOR'],
    ['plain_js', 'plain js'],
    ['lazy_import', 'lazy import'],
    ['cycle', 'cycle'],
    ['commonjs', 'commonjs'],
    ['module_in_commonjs', 'module in common'],
    ['env', 'of the file, of the operator'],
    ['compiled', 'compiled'],
    ['builder', 'builder'],
    ['promise', 'promise'],
    ['promised_builder', 'promised builder'],
    ['default_export', 'default export'],
    ['async_factory', 'async factory'],
    ['factory_of_builder', 'factory of a builder'],
    ['factory_of_user', 'factory of ada'],
    ['agent', 'agent'],
    ['factory_of_agent', 'agent'],
    ['supervisor', 'supervisor'],
    ['swarm', 'swarm'],
    ['deep_agent', 'deep agent'],
    ['entrypoint_of_text', 'HI!'],
  ])('serves %s', async (name, answer) => {
    await expect(served.call(name)).resolves.toMatchObject({ content: [{ text: answer }] })
  })

  test('serves an entrypoint with the input that its entry declares', async () => {
    const result = await served.call('entrypoint', { numbers: [1, 2] })
    expect(result).toMatchObject({ structuredContent: { sum: 3 } })
    await expect(served.call('entrypoint', {})).resolves.toMatchObject({ isError: true })
  })

  test('makes a graph for each run with the configuration of the run', async () => {
    const first = await served.call('factory')
    const second = await served.call('factory')
    expect([first, second]).toMatchObject([
      { content: [{ text: 'factory 2 factory string from LangGraph' }] },
      { content: [{ text: 'factory 3 factory string from LangGraph' }] },
    ])
  })

  test.each(['asks', 'factory_asks'])(
    'gives %s a checkpointer, so that it can ask',
    async (name) => {
      await using client = await connect('v1', served.url, {
        ...ADA.requestInit,
        answer: () => ({ answer: 'L' }),
      })
      await expect(client.callTool(name, 'Order')).resolves.toMatchObject({
        content: [{ text: 'asked: L' }],
      })
    },
  )

  test('gives graphs a store that lasts from call to call', async () => {
    await served.call('remembers', { message: 'figs' })
    await expect(served.call('remembers')).resolves.toMatchObject({
      content: [{ text: 'before: figs' }],
    })
  })
})

test('check names each graph that cannot be loaded with all lines of the error, and each unused key', async () => {
  const { code, out } = await run(['check', fixture('langgraph-broken')])
  expect(code).toBe(0)
  expect(out).toContain('1 tool\n  good  good\n')
  const lines = out.split('\n').map((line) => line.trim())
  for (const line of [
    '2 | export const graph = ][',
    ': ^',
    "import { wordd } from './good'",
    'It has a second line',
    'at throws.ts:6:9',
  ]) {
    expect(lines.map((each) => each.replaceAll(/ +/g, ' '))).toContain(line)
  }
  for (const part of [
    /"syntax" is not offered.* Unexpected token/,
    /"missing_export" is not offered.* does not provide an export named 'wordd'/,
    /"throws" is not offered.* Set the key of the model/,
    /"throws_text" is not offered.* 'only a text'/,
    /"no_file" is not offered.* names a file that does not exist/,
    /"no_import" is not offered.* Cannot find module/,
    /"no_package" is not offered.* npm install no-such-package/,
    /"not_a_graph" is not offered.* names the export "word", which is not a graph/,
    /"no_export" is not offered.* names the export "nothing", but \S+good\.ts exports factory, graph, word/,
    /"factory" is not offered.* names the export "factory", which is not a graph/,
    /"python" is not offered.* is a graph in Python/,
    /"no_path" is not offered.* must be "\.\/file\.ts:export"/,
    /Not used in langgraph\.json: dockerfile_lines, image_distro\./,
    /Not used in langgraph\.json: http\./,
    /Not used in langgraph\.json: auth\./,
    /Not used in langgraph\.json: store\./,
    /Not used in langgraph\.json: grahps\./,
    /Not used in langgraph\.json: dependencies\..* langchain_openai/,
    /missing\.env does not exist/,
  ]) {
    expect(out).toMatch(part)
  }
  expect(out).not.toMatch(/Not used in langgraph\.json: (?:ui|node_loader|env|node_version)\b/)
})

test('serves a project with the layout of the official templates', async () => {
  await using model = await startFakeAnthropic()
  const env = { ANTHROPIC_API_KEY: 'key', ANTHROPIC_BASE_URL: model.url }
  await using served = await serve(fixture('langgraph-template'), env)
  await expect(served.call('search')).resolves.toMatchObject({ content: [{ text: 'No figs' }] })
  await served.call('notes')
  await expect(served.call('notes')).resolves.toMatchObject({
    content: [{ text: 'I know 1 notes' }],
  })
  const filled = await served.call('fill', { topic: 'LangGraph', wanted: { founder: {} } })
  expect(filled).toMatchObject({
    structuredContent: { info: { topic: 'LangGraph', fields: ['founder'] } },
  })
})

test('other modules of the process load as before', async () => {
  await folder.file('package.json', '{ "type": "module" }')
  await folder.file('shared.ts', 'export const shared: object = {}')
  await folder.file('enum.ts', 'export enum Size { S }')
  await folder.file(
    'graph.ts',
    `import { Size } from './enum'
import { shared } from './shared'
export const graph = { channels: { messages: {} }, async stream() {}, shared, size: Size.S }`,
  )
  await folder.file('langgraph.json', '{ "graphs": { "a": "./graph.ts:graph" } }')
  const source = new URL('../src/index.ts', import.meta.url).href
  const program = await folder.file(
    'program.ts',
    `import { langGraphSource } from '${source}'
const warned = (message: string, cause?: unknown): void => console.log(message, cause)
const found = (): void => console.log('found')
const source = langGraphSource('${folder.path}/langgraph.json')
await source.start({ found, warned, seen() {}, gone() {}, unreachable() {} })
const { graph } = await import('./graph.ts')
const { shared } = await import('./shared.ts')
console.log('one module', graph.shared === shared)
await import('./shared').catch(({ code }: { code: string }) => console.log(code))
await source.close()`,
  )
  const child = spawn(sourceNode, ['--conditions=mcp-source', program])
  const [out] = await Promise.all([text(child.stdout), once(child, 'close')])
  expect(out.trim().split('\n')).toEqual(['found', 'one module true', 'ERR_MODULE_NOT_FOUND'])
})
