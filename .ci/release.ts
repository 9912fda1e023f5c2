// Publishes every package whose version the registry does not have, and tags them. `--dry-run` uploads and tags nothing.
// On GitHub Actions, each package gets a provenance attestation, which says from which commit it was built.
import { spawnSync } from 'node:child_process'
import { parseArgs } from 'node:util'

const { values } = parseArgs({ options: { 'dry-run': { type: 'boolean', default: false } } })
const isDryRun = values['dry-run']

function pnpm(...args: string[]): void {
  const { status } = spawnSync('npx', ['--yes', 'pnpm@12', ...args], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}

pnpm('build')
// A dry run may start from any branch, and with changes that are not committed.
const flags = isDryRun ? ['--dry-run', '--no-git-checks'] : []
if (process.env['GITHUB_ACTIONS'] === 'true') flags.push('--provenance')
pnpm('--recursive', 'publish', ...flags)
if (!isDryRun) pnpm('changeset', 'tag')
