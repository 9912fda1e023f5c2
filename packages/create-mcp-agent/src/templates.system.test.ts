import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { sourceNode } from '@x/internal/testing'
import { expect, test } from 'vitest'
import { workspaceVersions } from '../workspace-versions.ts'
import { projectFiles, TEMPLATES } from './project.ts'

const MODULES = fileURLToPath(new URL('../node_modules', import.meta.url))

test.each(TEMPLATES)('a project from the template %s passes its test', async (template) => {
  const folder = await mkdtemp(join(tmpdir(), 'create-mcp-agent-'))
  try {
    const files = await projectFiles({ template, name: 'any', versions: workspaceVersions() })
    for (const [path, text] of files) {
      await mkdir(dirname(join(folder, path)), { recursive: true })
      await writeFile(join(folder, path), text)
    }
    await symlink(MODULES, join(folder, 'node_modules'))
    const env = { ...process.env, NODE_OPTIONS: '--conditions=mcp-source' }
    const { stdout } = await promisify(execFile)(sourceNode, ['--test', '--test-reporter=tap'], {
      cwd: folder,
      env,
    })
    expect(stdout).toMatch(/# pass [12]\n# fail 0/)
  } finally {
    await rm(folder, { recursive: true })
  }
})
