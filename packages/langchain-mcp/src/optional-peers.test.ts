import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

/** Returns the specifiers of all modules that an import of the file loads, without types. */
async function loadedBy(file: string, seen: Set<string> = new Set()): Promise<Set<string>> {
  if (seen.has(file)) return seen
  seen.add(file)
  const source = (await readFile(file, 'utf8')).replaceAll(/\/\*.*?\*\//gs, '') // examples
  const statements = source.matchAll(/^(?:import|export)\s(?!type\s)[^;'"]*?from '([^']+)'/gm)
  const effects = source.matchAll(/^import '([^']+)'/gm)
  for (const [, specifier = ''] of [...statements, ...effects]) {
    if (specifier.startsWith('.')) {
      await loadedBy(fileURLToPath(new URL(specifier, `file://${file}`)), seen)
    } else {
      seen.add(specifier)
    }
  }
  return seen
}

test('needs neither LangGraph nor langchain for tools without a graph', async () => {
  const modules = await loadedBy(fileURLToPath(new URL('index.ts', import.meta.url)))
  expect(modules).toContain('@langchain/core/tools')
  const optional = [...modules].filter((name) =>
    /^(@langchain\/langgraph|langchain)(\/|$)/.test(name),
  )
  expect(optional).toEqual([])
})

test('needs LangGraph for its parts for graphs', async () => {
  const modules = await loadedBy(fileURLToPath(new URL('fan-out-tool-calls.ts', import.meta.url)))
  expect(modules).toContain('@langchain/langgraph')
})
