import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import * as surface from './index.ts'

test('exports exactly these names', () => {
  expect(Object.keys(surface).toSorted()).toEqual([
    'CallLedger',
    'FormBrowser',
    'deferred',
    'discoverResult',
    'freePort',
    'lossForms',
    'seededFaults',
    'seededRandom',
    'startGuardedServer',
    'startLegacyServer',
    'startModernServer',
    'startRecordingProxy',
    'startReplaceableServer',
    'startScriptedServer',
    'startSkillServer',
    'startTaskServer',
    'startTestServer',
    'toolFailures',
  ])
})

test('has a test of this repository as the first example of the README', async () => {
  const read = (path: string): Promise<string> => readFile(new URL(path, import.meta.url), 'utf8')
  const example = await read('../../langchain-mcp/test/survives-lost-session.test.ts')
  expect(await read('../README.md')).toContain(`\`\`\`ts\n${example}\`\`\``)
})
