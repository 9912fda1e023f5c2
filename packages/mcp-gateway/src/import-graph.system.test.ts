import { expect, test } from 'vitest'

import { configFolder, YAML } from '../test/config-folder.ts'
import { loadedBy } from '../test/loaded-modules.ts'

/** What has a price, and is for those who asked for it. */
const OPTIONAL =
  /^(?:@a2a-js|@langchain|@opentelemetry|@oxc-project|@redis|ajv|get-tsconfig|oxc-transform|prom-client|redis|undici|node:sqlite)/

test('loads no library that a gateway with one graph does not need', async () => {
  const loaded = await loadedBy(`
    const { createGateway } = await import(source('index.ts'))
    const graph = { channels: { messages: {} }, async stream() { return [] } }
    const gateway = createGateway({ agents: { support: { graph, description: 'Helps' } } })
    const { url } = await gateway.listen({ port: 0 })
    const call = { name: 'support', arguments: { message: 'Hello' } }
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: call }),
    })
    await response.text()
    await gateway.close()
  `)
  expect(loaded).toContain('@modelcontextprotocol/server')
  expect(loaded.filter((name) => OPTIONAL.test(name))).toEqual([])
})

test('loads none of these libraries in the command that serves one graph', async () => {
  await using folder = await configFolder()
  await folder.graphs('support')
  const file = await folder.file('g.yaml', YAML)
  const loaded = await loadedBy(`
    const { runCommand } = await import(source('cli/program.ts'))
    const { PassThrough } = await import('node:stream')
    const { get } = process.getBuiltinModule('node:http')
    let stop
    const stdout = new PassThrough()
    stdout.on('data', (line) => {
      get(new URL('/healthz', String(line).trim()), (response) => response.resume().on('end', () => stop()))
    })
    await runCommand({
      args: [${JSON.stringify(file)}, '--port', '0', '--log-level', 'silent'],
      env: {},
      stdin: new PassThrough(),
      stdout,
      stderr: new PassThrough(),
      onSignal: (signal, listener) => {
        if (signal === 'SIGTERM') stop = listener
        return () => {}
      },
      exit: () => {},
    })
  `)
  expect(loaded).toContain('yaml')
  expect(loaded.filter((name) => OPTIONAL.test(name))).toEqual([])
  expect(loaded).not.toContain('node:fetch')
})

test('loads only this package, commander and Node.js for help, version and token', async () => {
  const loaded = await loadedBy(`
    const { runCommand } = await import(source('cli/program.ts'))
    const sink = { write: () => true }
    const context = { env: {}, stdin: [], stdout: sink, stderr: sink, onSignal: () => () => {}, exit: () => {} }
    const helps = ['serve', 'work', 'check', 'token'].map((name) => [name, '--help'])
    for (const args of [['--help'], ['--version'], ['token'], ...helps]) await runCommand({ ...context, args })
  `)
  expect(loaded.filter((name) => !name.startsWith('node:'))).toEqual(['commander'])
})
