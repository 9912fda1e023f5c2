// Versions for the projects that are created: those of this workspace. The build writes them into the command.
import { readdirSync, readFileSync } from 'node:fs'
import { parse } from 'yaml'
import { PACKAGES } from './src/project.ts'

/** Ranges of the packages of the templates. They begin with the versions of the workspace: those of its catalog, and those of its own packages. */
export function workspaceVersions(): Record<string, string> {
  const packages = new URL('../', import.meta.url)
  const { catalog } = parse(readFileSync(new URL('../pnpm-workspace.yaml', packages), 'utf8'))
  const own = readdirSync(packages).map((folder) => {
    return JSON.parse(readFileSync(new URL(`${folder}/package.json`, packages), 'utf8'))
  })
  const versions = [
    ...Object.entries(catalog),
    ...own.map(({ name, version }) => [name, version] as const),
  ]
  const used = versions.filter(([name]) => PACKAGES.has(name))
  return Object.fromEntries(used.map(([name, version]) => [name, `^${version}`]))
}
