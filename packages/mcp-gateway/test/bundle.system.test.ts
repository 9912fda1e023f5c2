import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import { sourceNode } from '@x/internal/testing'
import { build, type UserConfig } from 'tsdown'
import { expect, onTestFinished, test } from 'vitest'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))

test.each([
  ['a module', 'esm', {}],
  ['CommonJS', 'cjs', {}],
  // As esbuild makes it.
  ['CommonJS without import.meta.url', 'cjs', { 'import.meta.url': 'undefined' }],
] as const)(
  'starts and serves in an application bundled into one file of %s',
  async (_, format, define) => {
    const outDir = await mkdtemp(join(tmpdir(), 'bundle-'))
    onTestFinished(() => rm(outDir, { recursive: true, force: true }))
    // Not a literal, because the configuration does not belong to the sources that are compiled.
    const config: { default: UserConfig } = await import(here('../tsdown.config.ts'))
    await build({
      config: false,
      cwd: here('..'),
      entry: { app: here('bundled-app.ts') },
      outDir,
      format,
      define: { ...config.default.define, ...define },
      deps: { alwaysBundle: [/./] },
      outputOptions: { codeSplitting: false },
      inputOptions: { resolve: { conditionNames: ['mcp-source', 'import', 'node'] } },
      dts: false,
      sourcemap: false,
      logLevel: 'silent',
    })
    const [file = ''] = await readdir(outDir)
    const { stdout } = await promisify(execFile)(sourceNode, [join(outDir, file)])
    const { answers, metrics } = JSON.parse(stdout) as { answers: object[]; metrics: string }
    const { version } = JSON.parse(await readFile(here('../package.json'), 'utf8')) as {
      version: string
    }
    const serverInfo = { 'io.modelcontextprotocol/serverInfo': { version } }
    expect(answers).toMatchObject([
      { result: { content: [{ text: 'Sunny' }], _meta: serverInfo } },
      { result: { isError: true, content: [{ text: 'Bad arguments: /city must be string' }] } },
    ])
    expect(metrics).toContain('mcp_gateway_calls_total{tool="weather_ask",outcome="ok"} 1')
  },
)
