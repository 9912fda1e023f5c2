import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'

const script = `
  import { registerHooks } from 'node:module'
  const loaded = new Set()
  registerHooks({
    resolve(specifier, context, next) {
      if (/^(@langchain|@a2a-js|redis|@opentelemetry)/.test(specifier)) loaded.add(specifier)
      return next(specifier, context)
    },
  })
  const { langGraphSource } = await import(process.argv[1])
  const graph = { channels: { messages: {} }, async stream() { return [] } }
  const source = langGraphSource({ a: { graph, description: '' } })
  await source.start({ found() {}, seen() {}, gone() {} })
  console.log(JSON.stringify([...loaded]))
`

test('a graph that talks loads none of the libraries that others need', async () => {
  const source = fileURLToPath(new URL('lang-graph-source.ts', import.meta.url))
  const { stdout } = await promisify(execFile)(sourceNode, [
    '--conditions=mcp-source',
    '--input-type=module',
    '--eval',
    script,
    source,
  ])
  expect(JSON.parse(stdout)).toEqual([])
})
