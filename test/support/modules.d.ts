/** The package brings no types; these are the two functions the tests use. */
declare module 'oauth-sign' {
  type Parameters = Readonly<Record<string, readonly string[]>>;

  const oauthSign: {
    generateBase(method: string, baseUri: string, parameters: Parameters): string;
    hmacsign(
      method: string,
      baseUri: string,
      parameters: Parameters,
      consumerSecret: string,
      tokenSecret: string,
    ): string;
  };
  export default oauthSign;
}

declare module 'node:vm' {
  interface SourceTextModule {
    createCachedData(): Buffer;
  }
}
