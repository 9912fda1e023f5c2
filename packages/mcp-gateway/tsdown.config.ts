import { defineConfig } from 'tsdown'

export default defineConfig({
  entry: { index: 'src/index.ts', redis: 'src/store/redis/index.ts' },
  fixedExtension: false,
  dts: true,
  exports: { devExports: 'mcp-source' },
  publint: true,
  attw: { profile: 'esm-only' },
})
