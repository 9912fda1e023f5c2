// The packages as npm would get them: what `pack-test` and the runner of the examples install.
import { execFile } from 'node:child_process'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)
const PACKAGES = fileURLToPath(new URL('../packages', import.meta.url))

export interface Manifest {
  readonly name: string
  readonly version: string
  readonly private?: boolean
  readonly publishConfig: {
    readonly exports: Readonly<Record<string, unknown>>
    readonly bin?: Readonly<Record<string, string>>
  }
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
}

export interface Packed {
  readonly folder: string
  readonly manifest: Manifest
  readonly tarball: string
}

/** Packs every published package, as it was built, into the folder. */
export async function packAll(destination: string): Promise<Packed[]> {
  const packages = await published()
  const filters = packages.map(({ manifest }) => `--filter=${manifest.name}`)
  const pack = ['pack', '--json', '--pack-destination', destination]
  const { stdout } = await run('npx', ['--yes', 'pnpm@12', ...filters, ...pack], {
    cwd: PACKAGES,
    maxBuffer: 64 * 1024 * 1024, // lists all files
  })
  const tarballs: readonly { readonly name: string; readonly filename: string }[] =
    JSON.parse(stdout)
  return packages.map((one) => {
    const { filename } = tarballs.find(({ name }) => name === one.manifest.name) ?? {}
    if (filename === undefined) throw new Error(`${one.manifest.name} was not packed`)
    return { ...one, tarball: filename }
  })
}

async function manifestOf(folder: string): Promise<Manifest> {
  return JSON.parse(await readFile(join(folder, 'package.json'), 'utf8'))
}

/** The package and the packages of ours that it needs: the registry does not have them yet. */
export function withOurs(packed: Packed, all: readonly Packed[]): Packed[] {
  const names = Object.keys(packed.manifest.dependencies ?? {})
  const needed = all.filter(({ manifest }) => names.includes(manifest.name))
  return [...new Set([packed, ...needed.flatMap((other) => withOurs(other, all))])]
}

/** The peers in the versions that are known to work: the newest ones may not even resolve. */
export async function peersOf(packages: readonly Packed[]): Promise<string[]> {
  const peers = packages.flatMap(({ folder, manifest }) =>
    Object.keys(manifest.peerDependencies ?? {})
      .filter((name) => manifest.peerDependenciesMeta?.[name]?.optional !== true)
      .map((name) => join(folder, 'node_modules', name)),
  )
  const manifests = await Promise.all(peers.map(manifestOf))
  return [...new Set(manifests.map(({ name, version }) => `${name}@${version}`))]
}

async function published(): Promise<Omit<Packed, 'tarball'>[]> {
  const folders = (await readdir(PACKAGES)).map((name) => join(PACKAGES, name))
  const all = await Promise.all(
    folders.map(async (folder) => ({ folder, manifest: await manifestOf(folder) })),
  )
  return all.filter(({ manifest }) => manifest.private !== true)
}
