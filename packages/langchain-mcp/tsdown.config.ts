import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: 'src/index.ts',
  fixedExtension: false,
  dts: true,
  exports: {
    devExports: 'mcp-source',
    customExports: (exports) => ({ ...exports, './agent.schema.json': './agent.schema.json' }),
  },
  publint: true,
  attw: { profile: 'esm-only' },
})
