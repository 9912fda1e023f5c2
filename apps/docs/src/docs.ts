// pnpm run docs, pnpm docs:dev, pnpm docs:test: builds, serves or tests the site.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { ensureInstalled } from '../../../.ci/ensure-installed.ts'
import { API, ROOT } from './pages.ts'

const HOME = join(ROOT, 'apps/docs')
const HELP = `Usage: pnpm run docs | pnpm docs:dev | pnpm docs:test

  pnpm run docs    builds the site into apps/docs/dist, and checks its links. (pnpm docs is a command of pnpm.)
  pnpm docs:dev    serves it, and shows changes of the pages at once
  pnpm docs:test   opens the built site in Chromium: accessibility in both themes, and width at 380 px

Options
  --base <path>    path below which the site is served (default: /)
  --no-api         builds without the API reference, which saves a minute
  --help           this text`

const { values, positionals } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== '--'), // pnpm passes it on
  allowPositionals: true,
  options: {
    base: { type: 'string', default: '/' },
    'no-api': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
const [command = 'build'] = positionals

if (values.help) console.log(HELP)
else if (!(await ensureInstalled(HOME))) fail('apps/docs could not be installed: see pnpm above')
else await run()

async function run(): Promise<void> {
  // Modules that need packages of this app are loaded now.
  switch (command) {
    case 'build': {
      await vitepress('build')
      const { checkLinks } = await import('./check-links.ts')
      report(checkLinks(join(HOME, 'dist'), values.base))
      break
    }
    case 'dev':
      await vitepress('dev')
      break
    case 'test': {
      const { testSite } = await import('./test-site.ts')
      report(await testSite(join(HOME, 'dist')))
      break
    }
    default:
      fail(`There is no command "${command}": see --help`)
  }
}

async function vitepress(action: 'build' | 'dev'): Promise<void> {
  const { hasReference, writeReference } = await import('./reference.ts')
  const { REPOSITORY } = await import('./markdown.ts')
  if (values['no-api']) rmSync(join(ROOT, API), { recursive: true, force: true })
  else if (action === 'build' || !hasReference()) report(await writeReference(REPOSITORY))
  const program = join(HOME, 'node_modules/vitepress/bin/vitepress.js')
  const env = { ...process.env, DOCS_BASE: values.base }
  const child = spawn(process.execPath, [program, action, HOME], { stdio: 'inherit', env })
  const [code] = await once(child, 'close')
  if (code !== 0) process.exit(code ?? 1)
}

/** Prints problems. With any, the command fails, and builds all the same. */
function report(problems: readonly string[]): void {
  for (const problem of problems) console.error(`docs: ${problem}`)
  if (problems.length > 0) process.exitCode = 1
}

function fail(sentence: string): never {
  console.error(`docs: ${sentence}`)
  process.exit(1)
}
