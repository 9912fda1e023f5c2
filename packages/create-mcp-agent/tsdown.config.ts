import { defineConfig } from 'tsdown'
import manifest from './package.json' with { type: 'json' }
import { workspaceVersions } from './workspace-versions.ts'

export default defineConfig({
  entry: { main: 'src/main.ts', 'runtime-check': 'src/runtime-check.ts' },
  define: {
    PACKAGE_VERSION: JSON.stringify(manifest.version), // read by readPackageVersion()
    VERSIONS: JSON.stringify(workspaceVersions()),
  },
  fixedExtension: false,
  sourcemap: true, // with the text of the sources, which are not published
  dts: false,
  exports: {
    devExports: 'mcp-source',
    exclude: ['main', 'runtime-check'],
    bin: { 'create-mcp-agent': './src/main.ts' },
  },
  publint: true,
})
