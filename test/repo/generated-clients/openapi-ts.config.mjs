export default {
  input: 'openapi.yaml',
  output: { path: 'countersign', module: { extension: '.js' } },
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
};
