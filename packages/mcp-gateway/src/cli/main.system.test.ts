import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

import { configFolder, YAML } from '../../test/config-folder.ts'

const LOUD = `console.log('loading')
export const graph = {
  channels: { messages: {} },
  async stream() {
    console.info('thinking %s', 'hard')
    return (async function* () {
      yield [[], 'values', { messages: [{ type: 'ai', content: 'Hello' }] }]
    })()
  },
}`

test('keeps console output of graphs out of the protocol on standard output', async () => {
  await using folder = await configFolder()
  await folder.graphs('loud')
  await folder.file('graph.mjs', LOUD)
  const main = fileURLToPath(new URL('main.ts', import.meta.url))
  const args = ['--conditions=mcp-source', main, await folder.file('g.yaml', YAML), '--stdio']
  const child = spawn(sourceNode, args)
  const said = text(child.stderr)
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const ask = async (id: number, method: string, params: object): Promise<unknown> => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`)
    const { value } = await answers.next()
    return JSON.parse(String(value))
  }
  const clientInfo = { name: 'test', version: '1.0.0' }
  const hello = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo }
  await expect(ask(0, 'initialize', hello)).resolves.toMatchObject({ id: 0 })
  const call = { name: 'loud', arguments: { message: 'Hi' } }
  await expect(ask(1, 'tools/call', call)).resolves.toMatchObject({
    id: 1,
    result: { content: [{ type: 'text', text: 'Hello' }] },
  })
  child.stdin.end()
  expect(await once(child, 'exit')).toEqual([0, null])
  expect(await said).toMatch(/^loading$[^]*^thinking hard$/m)
})
