// Gives the packages another scope, and the project other addresses:
//
//   pnpm rename-scope @acme --repository https://github.com/acme/mcp-sessions [--homepage https://docs.acme.example]
//
// The homepage is the site of the documents, to which errors lead. Its default is that of GitHub Pages.
//
// Renames in all files of the repository, tests and identifiers on the wire included. `x-mcp-header` stays: it is a
// keyword of the MCP specification. Commit or discard the result with git.
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const SCOPE = /^@[a-z0-9][a-z0-9._-]*$/

interface Change {
  readonly from: string
  readonly to: string
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { repository: { type: 'string' }, homepage: { type: 'string' } },
})
const [scope = ''] = positionals
if (!SCOPE.test(scope) || positionals.length > 1) {
  fail(
    `"${positionals.join(' ')}" is not a scope of npm. Write for example: pnpm rename-scope @acme`,
  )
}
const repository = addressFrom(values.repository, '--repository https://github.com/acme/agents')
const [, owner, name] = /^https:\/\/github\.com\/([^/]+)\/([^/]+)$/.exec(repository ?? '') ?? []
const homepage =
  addressFrom(values.homepage, '--homepage https://docs.acme.example') ??
  (owner && `https://${owner.toLowerCase()}.github.io/${name}`)
const oldScope = manifestOf('packages/mcp-client').name.split('/')[0]
const old = manifestOf('.')
const changes = changesFor(scope)
const files = git('ls-files', '-z').split('\0').filter(Boolean)
let renamed = 0
for (const file of files) {
  if (file.endsWith('pnpm-lock.yaml')) continue // made anew below
  const bytes = readFileSync(join(ROOT, file))
  const text = bytes.toString()
  const isText = Buffer.from(text).equals(bytes)
  const result = changes.reduce((changed, { from, to }) => changed.replaceAll(from, to), text)
  if (!isText || result === text) continue
  writeFileSync(join(ROOT, file), result)
  renamed++
}
// Names have another length now, and imports another order. The lockfiles name the packages too.
run('node_modules/.bin/oxfmt')
run('npx', '--yes', 'pnpm@12', 'install', '--lockfile-only', '--no-frozen-lockfile')
run(
  'npx',
  '--yes',
  'pnpm@12',
  '--dir',
  'apps/bench',
  'install',
  '--lockfile-only',
  '--no-frozen-lockfile',
)
run('npx', '--yes', 'pnpm@12', 'install', '--frozen-lockfile')
console.log(
  `Renamed ${renamed} files from ${oldScope} to ${scope}. Look at the difference, and run pnpm check.`,
)
if (homepage === undefined) {
  console.log(
    `Errors still lead to ${old.homepage}. Set the site of the documents with --homepage.`,
  )
}

function changesFor(scopeName: string): Change[] {
  const domain = owner?.toLowerCase() ?? `${scopeName.slice(1)}-mcp`
  return [
    { from: `${oldScope}/`, to: `${scopeName}/` },
    // A name of a feature on the wire begins with a reversed domain that the project owns.
    { from: 'io.github.x-mcp/', to: `io.github.${domain}/` },
    ...(repository ? [{ from: old.repository.url, to: repository }] : []),
    ...(homepage ? [{ from: old.homepage, to: homepage }] : []),
  ]
}

function addressFrom(given: string | undefined, example: string): string | undefined {
  const address = given?.replace(/(?:\.git|\/)+$/, '')
  if (address === undefined || URL.canParse(address)) return address
  return fail(`"${address}" is not a URL. Write for example ${example}`)
}

function manifestOf(folder: string): {
  readonly name: string
  readonly homepage: string
  readonly repository: { url: string }
} {
  return JSON.parse(readFileSync(join(ROOT, folder, 'package.json'), 'utf8'))
}

function git(...args: string[]): string {
  return run('git', ...args)
}

function run(command: string, ...args: string[]): string {
  return execFileSync(command, args, {
    cwd: ROOT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

function fail(sentence: string): never {
  console.error(sentence)
  process.exit(1)
}
