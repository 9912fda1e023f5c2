import { deferred } from '@x/mcp-testing'
import { afterEach, beforeEach, expect, test } from 'vitest'

import { start, type Running } from '../../test/command-line.ts'
import { configFolder, YAML, type ConfigFolder } from '../../test/config-folder.ts'
import { connect } from '../../test/mcp-clients.ts'

let folder: ConfigFolder

beforeEach(async () => {
  folder = await configFolder()
  await folder.graphs('support', 'billing')
})

afterEach(() => folder[Symbol.asyncDispose]())

async function serving(
  yaml: string,
  ...options: readonly string[]
): Promise<Running & { readonly url: string }> {
  const running = start([await folder.file('g.yaml', yaml), '--port', '0', ...options])
  const [url = ''] = await running.said('stdout', /http:\S+/)
  return { ...running, url }
}

/** Writes another file, and resolves when the gateway says so. */
async function reload(running: Running, yaml: string, said: RegExp): Promise<void> {
  await folder.file('g.yaml', yaml)
  running.signal('SIGHUP')
  await running.said('stderr', said)
}

async function stop(running: Running): Promise<void> {
  running.signal('SIGTERM')
  expect(await running.code).toBe(0)
}

test('adds and removes sources with the file, and changes nothing for a file with a mistake', async () => {
  await folder.graphs('support')
  const running = await serving(YAML)
  const { url } = running
  await folder.file('more.json', JSON.stringify({ graphs: { billing: './graph.mjs:graph' } }))
  await reload(running, 'agents: { sauces: [] }\n', /nothing is changed/)
  expect(running.text('stderr')).toContain('did you mean agents.sources?')
  await using client = await connect('v1', url)
  const names = async (): Promise<readonly string[]> => {
    return (await client.listTools()).tools.map(({ name }) => name)
  }
  expect(await names()).toEqual(['support'])
  const more = YAML.replace('langgraph.json', 'more.json')
  await reload(running, `${more}http: { path: /other }\n`, /the file was read again/)
  expect(await names()).toEqual(['billing'])
  await running.said('stderr', /"waiting":\["http\.path"\]/)
  await stop(running)
})

test('keeps the tools of a source if its replacement cannot start', async () => {
  await folder.graphs('support')
  const running = await serving(YAML)
  await using client = await connect('v1', running.url)
  const wrong = YAML.replace('langgraph.json', 'langgraf.json')
  await reload(running, wrong, /"sources":\[.*what they were to replace stays/)
  expect(running.text('stderr')).toContain('langgraf.json')
  expect((await client.listTools()).tools).toMatchObject([{ name: 'support' }])
  await folder.file('langgraf.json', JSON.stringify({ graphs: { billing: './graph.mjs:graph' } }))
  running.signal('SIGHUP') // the same file, which can be used now
  await running.said('stderr', /the file was read again(?=[\s\S]*the file was read again)/)
  expect((await client.listTools()).tools).toMatchObject([{ name: 'billing' }])
  await stop(running)
})

test.each(['v1', 'v2 pinned'] as const)(
  'applies filters and overrides for a connected client: %s',
  async (kind) => {
    const running = await serving(YAML)
    const changed = deferred()
    await using client = await connect(kind, running.url, { onToolsChanged: changed.resolve })
    expect((await client.listTools()).tools).toHaveLength(2)
    const tools = 'tools:\n  exclude: [billing]\n  overrides: { support: { title: Helps you } }\n'
    await reload(running, `${YAML}${tools}`, /the file was read again/)
    await changed.promise
    expect((await client.listTools()).tools).toMatchObject([
      { name: 'support', title: 'Helps you' },
    ])
    await stop(running)
  },
)

test('applies limits, and names the line of a setting that only the gateway refuses', async () => {
  const running = await serving(`${YAML}limits: { argumentBytes: 100 }\n`)
  await using client = await connect('v1', running.url)
  const isError = async (): Promise<unknown> => {
    return (await client.callTool('support', 'x'.repeat(50)))['isError']
  }
  expect(await isError()).not.toBe(true)
  const clash = `${YAML}tools:\n  overrides:\n    support: { name: same }\n    billing: { name: same }\n`
  await reload(running, `${clash}limits: { argumentBytes: 20 }\n`, /nothing is changed/)
  expect(running.text('stderr')).toMatch(/g\.yaml:\d+: /)
  expect(await isError()).not.toBe(true)
  await reload(running, `${YAML}limits: { argumentBytes: 20 }\n`, /the file was read again/)
  expect(await isError()).toBe(true)
  await stop(running)
})

test('reads a langgraph.json again with --watch when it is written', async () => {
  const running = await serving(YAML, '--watch')
  const changed = deferred()
  await using client = await connect('v1', running.url, { onToolsChanged: changed.resolve })
  await client.listTools()
  await folder.graphs('support', 'shipping')
  await changed.promise
  const names = (await client.listTools()).tools.map(({ name }) => name)
  expect(names).toEqual(['shipping', 'support'])
  await stop(running)
})
