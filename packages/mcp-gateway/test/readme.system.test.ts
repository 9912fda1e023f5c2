import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { sourceNode } from '@x/internal/testing'
import { expect, onTestFinished, test } from 'vitest'

import { connect } from './mcp-clients.ts'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test('the example about files is in its page, and works', async () => {
  const example = await readFile(here('example-files.ts'), 'utf8')
  expect(await readFile(here('../../../docs/gateway/files.md'), 'utf8')).toContain(
    `\`\`\`ts\n${example}\`\`\``,
  )
  const args = ['--conditions=mcp-source', here('example-files.ts')]
  const { stdout } = await promisify(execFile)(sourceNode, args)
  expect(stdout).toMatch(
    /^By wishes\.txt \(11 bytes\)\.\nartifact:\/\/\w{26}\/circles\.svg\?version=1\n$/,
  )
})

test('the graph of the tutorial answers as its page says', async () => {
  const page = await readFile(here('../../../docs/start/offer-an-agent.md'), 'utf8')
  const block = (language: string): string => {
    const [, text] = new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``).exec(page) ?? []
    if (text === undefined) throw new Error(`The page has no block of ${language}`)
    return text
  }
  const folder = await mkdtemp(here('tutorial-')) // here its imports resolve
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'graph.ts'), block('ts'))
  await writeFile(join(folder, 'langgraph.json'), block('json'))
  const main = here('../src/cli/main.ts')
  const args = [join(folder, 'langgraph.json'), '--port', '0', '--log-level', 'error']
  const child = spawn(sourceNode, ['--conditions=mcp-source', main, ...args])
  const closed = once(child, 'close')
  const { value: url = '' } = await createInterface(child.stdout)[Symbol.asyncIterator]().next()
  const client = await connect('v2 auto', url)
  const { content } = await client.callTool('support', 'Where is order 17?')
  expect(content).toEqual([{ type: 'text', text: 'Order 17 is on its way.' }])
  expect(page).toContain('"text": "Order 17 is on its way."')
  await client[Symbol.asyncDispose]()
  child.kill('SIGTERM')
  await closed
})
